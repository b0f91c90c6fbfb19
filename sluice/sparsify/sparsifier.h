#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sluice/backend/pass.h"
#include "sluice/core/params.h"
#include "sluice/core/registry.h"
#include "sluice/core/view.h"

namespace sluice {

// Takes every entry that is finite and not 0; one round.
struct TakeAllRule {
  static constexpr std::uint32_t kRounds = 1;
  SLUICE_HD static Query ask(const RuleCall&) { return {}; }
  SLUICE_HD static Bracket propose(const RuleCall&, const Answer&) {
    return {};
  }
  SLUICE_HD static Verdict judge(const RuleCall&, const Counts& counts) {
    return {Verdict::kTake, counts.lo};
  }
  SLUICE_HD static void observe(const RuleCall&, const Outcome&) {}
};

// Says which entries of a bucket's segments are sent.
//
// It holds only its parameters: what it learns from step to step lives in one
// RuleState per segment, which the caller keeps and a backend reads and writes.
// It knows nothing of residuals, ranks, networks or devices.
class Sparsifier {
 public:
  static constexpr std::string_view kKind = "sparsifier";
  // The rule of its threshold segments; a method with its own says so.
  using RuleType = TakeAllRule;

  virtual ~Sparsifier() = default;

  virtual std::string_view name() const = 0;

  // How many of n entries a density asks for; at least 1 unless n is 0.
  // Throws std::invalid_argument unless 0 < density <= 1.
  std::uint64_t budget(std::uint64_t n, double density) const;

  // Whether it guesses a threshold, so that it may select another number than
  // the budget of entries that are not 0.
  virtual bool estimates() const { return false; }

  // Fills kind, rule, rows, capacity, values and facts.k of a task whose other
  // facts and `shape` are set. Depends on nothing else, so all ranks plan
  // alike. A density of 1 sends everything, except for rules that do not follow
  // the density.
  void plan(const Shape3& shape, SegmentTask& task) const;

 private:
  virtual std::uint64_t count(double product) const;
  virtual bool follows_density() const { return true; }
  // Called with 1 <= k < n (k <= n for rules that do not follow the density)
  // and facts.k == k. Sets task.values only if the method has a form of its
  // own.
  virtual void choose(const Shape3& shape, SegmentTask& task) const = 0;
};

// The part that is alike in all sparsifiers: `Self` has a kName, and a list()
// if there are parameters.
struct NoParams {};
template <class Self, class P = NoParams>
class SparsifierOf : public Sparsifier {
 public:
  using Params = P;
  static ParamList list(Params&) { return {}; }

  explicit SparsifierOf(const Params& params) : params_(params) {}
  std::string_view name() const final { return Self::kName; }

 protected:
  Params params_;
};

using SparsifierEntry = RegistryEntry<Sparsifier>;

// Every sparsifier there is.
std::span<const SparsifierEntry> sparsifiers();

// From "name", "name:key=value,..." or a JSON object; see parse_spec.
std::unique_ptr<Sparsifier> make_sparsifier(std::string_view text);

// TakeAllRule as a Rule.
Rule take_all_rule();

// A segment that this rule selects from; it sends at most `capacity`.
inline void plan_threshold(SegmentTask& task, const Rule& rule,
                           std::size_t capacity) {
  task.kind = SelectKind::kThreshold;
  task.rule = rule;
  task.capacity = capacity;
}

}  // namespace sluice
