#include "sluice/sparsify/redsync.h"

#include "sluice/sparsify/rules.h"

namespace sluice {

ParamList Redsync::list(Params& p) {
  return {sample_param(p.sample),
          {"exact", &p.exact,
           "bisect up to 20 times, then select exactly; false: the published "
           "search, which may miss k by far"}};
}

void Redsync::choose(const Shape3&, SegmentTask& task) const {
  plan_statistical(task, make_rule<RedsyncRule>(params_),
                   params_.exact ? 2 : static_cast<double>(task.facts.n));
}

ParamList RedsyncTrimmed::list(Params& p) { return {sample_param(p.sample)}; }

void RedsyncTrimmed::choose(const Shape3&, SegmentTask& task) const {
  plan_threshold(task, make_rule<RedsyncTrimmedRule>(params_), task.facts.k);
}

void RedsyncQuantized::choose(const Shape3&, SegmentTask& task) const {
  Rule rule = make_rule<RedsyncQuantizedRule>();
  rule.sign = task.facts.step % 2 == 0 ? 1 : -1;
  plan_threshold(task, rule, task.facts.k);
  task.values = ValueForm::kOne;
}

}  // namespace sluice
