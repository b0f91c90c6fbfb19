#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

// A kind of number that says how good a model is. One table has them all:
// metrics, summaries, checkpoints, comparisons and plots know scores by name.
struct ScoreKind {
  std::string_view name;   // in files
  std::string_view label;  // for people
  bool up;                 // more is better
  bool percent;            // people read it so; files have the share
  // The value, of a mean over what was weighed.
  double (*of_mean)(double mean);

  // Anything is better than NaN, which is not.
  bool better(double a, double b) const;
  // As people read it: "87.31 %", "112.40".
  std::string text(double value) const;
  // In the units that people read: 87.31 of 0.8731.
  double shown(double value) const { return percent ? 100 * value : value; }
};

std::span<const ScoreKind> score_kinds();
// Throws std::invalid_argument, listing all, for another name.
const ScoreKind& score_kind(std::string_view name);

// A score of some samples, as sums: those of several ranks can be added, and
// every sample counts once.
struct Score {
  const ScoreKind* kind = nullptr;
  double sum = 0;
  double weight = 0;

  double value() const { return kind->of_mean(sum / weight); }
};

// A score whose value is known.
struct NamedScore {
  const ScoreKind* kind = nullptr;
  double value = 0;
};

}  // namespace sluice
