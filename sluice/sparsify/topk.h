#pragma once

#include <cstdint>

#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// What exact selection remembers of a segment; zero bytes are a cold start.
struct TopkState {
  std::uint32_t threshold = 0;  // last step's cut
  std::uint32_t predicted = 0;
  std::uint32_t margin = 0;  // in keys, around the prediction
  std::uint32_t warm = 0;
  double scale = 0;      // a quantile of the sample when `threshold` was found
  double scale_now = 0;  // the same of this step
};

// The four functions of exact top-k, for rules that need it in some steps.
//
// The cut is bracketed by last step's, moved along with a quantile of a small
// sample, a little inside the tail; cold, by the order statistics of a larger
// sample. The stream pass verifies the bracket by counting, so the result is
// exact either way.
struct TopkRule {
  static Query ask(const RuleCall& call, const TopkState& state);
  static Bracket propose(const RuleCall& call, TopkState& state,
                         const Answer& answer);
  static Verdict judge(const RuleCall& call, const Counts& counts,
                       bool zeros = true);
  static void observe(TopkState& state, const Outcome& outcome);
};

// As a rule of its own; sign +1 or -1 restricts it to that sign.
Rule topk_rule(int sign = 0);

// The k largest magnitudes; ties to the lower index.
class Topk final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "topk";
  static constexpr std::string_view kSummary =
      "exactly the k largest magnitudes of each tensor";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit Topk(const Params&) {}
  std::string_view name() const override { return kName; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

}  // namespace sluice
