#include "sluice/plan/partial.h"

#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "sluice/plan/chain.h"
#include "sluice/plan/simulate.h"

namespace sluice {
namespace {

// The highest density at which `sparse` elements take at most `bytes`; none if
// even `low` takes more.
std::optional<double> within(const Way& way, double sparse, double bytes,
                             double low, double high) {
  const auto fits = [&](double density) {
    return way.of(sparse, density).bytes <= bytes;
  };
  if (!fits(low)) return std::nullopt;
  if (fits(high)) return high;
  for (int i = 0; i < 24; ++i) {
    const double middle = 0.5 * (low + high);
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

// Every size; of very many, every so many.
std::vector<std::size_t> tried(const std::set<std::size_t>& sizes) {
  constexpr std::size_t kMost = 128;
  const std::size_t stride = 1 + (sizes.size() - 1) / kMost;
  std::vector<std::size_t> out;
  std::size_t i = 0;
  for (const std::size_t size : sizes) {
    if (i++ % stride == 0) out.push_back(size);
  }
  return out;
}

}  // namespace

Plan AdtopkPartial::plan(const Job& job) const {
  // What is dense anyway shares no budget.
  if (job.all_dense()) return make_plan("single", plan_input(job));
  const Way sparse(job, job.sparse);
  const Way dense(job, dense_bucket(job, job.dense_collective));
  std::vector<bool> grouped = grouped_tensors(job);
  std::set<std::size_t> sizes = {0};
  double all = 0;
  for (std::size_t t = 0; t < grouped.size(); ++t) {
    if (!grouped[t]) continue;
    sizes.insert(job.profile.tensors[t].elements);
    all += static_cast<double>(job.profile.tensors[t].elements);
  }
  const double budget = sparse.of(all).bytes;
  Plan best;
  double least = std::numeric_limits<double>::infinity();
  double small = 0;
  for (const std::size_t size : tried(sizes)) {
    for (std::size_t t = 0; t < grouped.size(); ++t) {
      if (!grouped[t] || job.profile.tensors[t].elements > size) continue;
      grouped[t] = false;
      small += static_cast<double>(job.profile.tensors[t].elements);
    }
    const auto density =
        within(sparse, all - small, budget - dense.of(small).bytes,
               params_.least * job.density, job.density);
    if (size > 0 && !density) break;
    BucketPlan like = job.sparse;
    if (density && *density < job.density) like.density = *density;
    const TensorChain tensors(job, grouped, dense);
    for (const Groups& groups :
         {all_together(tensors.chain), each_alone(tensors.chain)}) {
      Plan plan = plan_of(tensors, groups, {&like, 1}, dense.like());
      plan.hierarchical = job.hierarchical;
      const double seconds = iteration_seconds(plan, job);
      if (seconds >= least) continue;
      least = seconds;
      best = std::move(plan);
    }
  }
  return best;
}

}  // namespace sluice
