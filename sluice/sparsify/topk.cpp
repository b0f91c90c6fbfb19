#include "sluice/sparsify/topk.h"

#include "sluice/sparsify/rules.h"

namespace sluice {

void Topk::choose(const Shape3&, SegmentTask& task) const {
  task.kind = SelectKind::kThreshold;
  task.rule = make_rule<TopkRule>();
  task.capacity = task.facts.k;
}

}  // namespace sluice
