#include "sluice/sparsify/threshold.h"

#include "sluice/core/key.h"
#include "sluice/sparsify/rules.h"

namespace sluice {

ParamList Threshold::list(Params& p) {
  return {{"value", &p.value, "send magnitudes above this", 0},
          {"cap", &p.cap,
           "send the k largest when more than cap * k pass; 0: no cap", 0}};
}

void Threshold::choose(const Shape3&, SegmentTask& task) const {
  const ThresholdRule::Constants constants = {above_key(params_.value),
                                              params_.cap};
  plan_threshold(
      task, make_rule<ThresholdRule>(constants),
      std::max(ThresholdRule::most(task.facts, params_.cap), task.facts.k));
}

void None::choose(const Shape3&, SegmentTask& task) const {
  plan_threshold(task, take_all_rule(), task.facts.n);
}

}  // namespace sluice
