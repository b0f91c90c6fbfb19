#include "sluice/sparsify/gaussiank.h"

#include "sluice/sparsify/rules.h"

namespace sluice {

ParamList Gaussiank::list(Params& p) {
  return {sample_param(p.sample),
          {"published", &p.published,
           "the loop of the paper's code, which may miss k by far"}};
}

void Gaussiank::choose(const Shape3&, SegmentTask& task) const {
  plan_statistical(task, make_rule<GaussiankRule>(params_),
                   params_.published ? static_cast<double>(task.facts.n)
                                     : GaussiankRule::kMany);
}

}  // namespace sluice
