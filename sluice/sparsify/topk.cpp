#include "sluice/sparsify/topk.h"

#include "sluice/sparsify/rules.h"

namespace sluice {

void Topk::choose(const Shape3&, SegmentTask& task) const {
  plan_threshold(task, make_rule<TopkRule>(), task.facts.k);
}

}  // namespace sluice
