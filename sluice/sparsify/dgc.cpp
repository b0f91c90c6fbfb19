#include "sluice/sparsify/dgc.h"

#include <cmath>

#include "sluice/sparsify/rules.h"

namespace sluice {

ParamList Dgc::list(Params& p) {
  return {
      {"sample_ratio", &p.sample_ratio, "share of the tensor to sample", 0.01,
       1},
      {"upper", &p.upper, "too many: more than upper * k", 1},
      {"lower", &p.lower, "too few: fewer than lower * k", 0.01, 1},
      {"rounds", &p.rounds, "adaptations at most", 0, kMaxRounds - 1},
      {"resample", &p.resample,
       "too many: take the k largest; otherwise raise the threshold"},
  };
}

std::uint64_t Dgc::count(double product) const {
  return static_cast<std::uint64_t>(std::ceil(product));
}

void Dgc::choose(const Shape3&, SegmentTask& task) const {
  plan_threshold(task, make_rule<DgcRule>(params_), task.facts.k);
}

}  // namespace sluice
