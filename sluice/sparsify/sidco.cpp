#include "sluice/sparsify/sidco.h"

#include "sluice/sparsify/rules.h"

namespace sluice {

ParamList Sidco::list(Params& p) {
  return {
      {"stages", &p.stages, "stages of refitting, or the first number of them",
       1, 30},
      {"adapt", &p.adapt, "change the stages with the observed k_hat / k"},
      {"first_ratio", &p.first_ratio, "share that passes the first stage", 0.01,
       0.99},
      sample_param(p.sample),
      {"exact_gamma", &p.exact_gamma,
       "sidco-gp: solve the gamma tail; false: the paper's approximation"},
      {"correct", &p.correct,
       "select exactly when the count is off by more than a factor of 2"},
  };
}

void Sidco::choose(const Shape3&, SegmentTask& task) const {
  const Rule rule = make_rule<SidcoRule>(
      SidcoRule::Constants{static_cast<std::int32_t>(params_.stages),
                           params_.adapt, params_.exact_gamma, params_.correct,
                           kind_, params_.first_ratio, params_.sample});
  plan_threshold(task, rule,
                 params_.correct ? std::min(2 * task.facts.k, task.facts.n)
                                 : task.facts.n);
}

}  // namespace sluice
