#include "sluice/sparsify/sparsifier.h"

#include <algorithm>
#include <cmath>

#include "sluice/core/error.h"
#include "sluice/core/number_text.h"
#include "sluice/sparsify/rules.h"

namespace sluice {

std::uint64_t Sparsifier::budget(std::uint64_t n, double density) const {
  require(density > 0 && density <= 1,
          "[sparsify] density must be above 0 and at most 1, got ",
          shortest(density));
  if (n == 0) return 0;
  const std::uint64_t k = count(density * static_cast<double>(n));
  return std::clamp<std::uint64_t>(k, 1, n);
}

std::uint64_t Sparsifier::count(double product) const {
  return static_cast<std::uint64_t>(product);
}

void Sparsifier::plan(const Shape3& shape, SegmentTask& task) const {
  SegmentFacts& facts = task.facts;
  require(shape.size() == facts.n, "[sparsify] a segment of ", facts.n,
          " elements must have a shape of that size, got ", shape.d0, " x ",
          shape.c, " x ", shape.r);
  facts.k = budget(facts.n, facts.density);
  task.rows = {};
  task.values = ValueForm::kFp32;
  if (facts.n == 0 || (facts.k >= facts.n && follows_density())) {
    plan_threshold(task, take_all_rule(), facts.n);
    return;
  }
  choose(shape, task);
}

Rule take_all_rule() { return make_rule<TakeAllRule>(); }

}  // namespace sluice
