#include "sluice/plan/lags.h"

#include <algorithm>
#include <cmath>

#include "sluice/plan/chain.h"

namespace sluice {
namespace {

// How far computing, selecting and the link have come.
struct Progress {
  bool select_beside;
  double made = 0;      // gradients
  double selected = 0;  // buckets
  double sent = 0;

  // Behind so many seconds of backward and the selection of what they made;
  // selecting ends then.
  Progress after(double backward, double select) const {
    Progress p = *this;
    p.made = (select_beside ? made : std::max(made, selected)) + backward;
    if (select > 0) p.selected = std::max(selected, p.made) + select;
    return p;
  }
  // Of the exchange of what took so long to select.
  double start(double select) const {
    return std::max({sent, made, select > 0 ? selected : 0});
  }
};

// Three digits are enough, rounded so that it is not more.
double round_down(double density) {
  const double unit = std::pow(10, std::floor(std::log10(density)) - 2);
  return std::floor(density / unit) * unit;
}

// The highest density at which a bucket takes no longer than `seconds`.
double highest(const Way& way, double elements, double seconds, double low,
               double high) {
  const auto fits = [&](double density) {
    const BucketCost cost = way.of(elements, density);
    return cost.exchange + cost.apply <= seconds;
  };
  if (!fits(low)) return low;
  if (fits(high)) return high;
  for (int i = 0; i < 24; ++i) {
    const double middle = std::sqrt(low * high);
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

Plan Lags::plan(const Job& job) const {
  // What is dense anyway has no density to choose.
  if (job.all_dense()) return make_plan("layerwise", plan_input(job));
  const Way sparse(job, job.sparse);
  const Way dense(job, dense_bucket(job, job.dense_collective));
  const TensorChain tensors(job, grouped_tensors(job), dense);
  const Chain& chain = tensors.chain;
  Plan plan;
  Progress now{job.streams.select_beside};
  // When the bucket behind number i could be sent; behind the last one the rest
  // waits for the link, if anything does.
  const auto next_start = [&](std::size_t i, const Progress& p) {
    if (i + 1 < chain.elements.size()) {
      const double select = sparse.of(chain.elements[i + 1]).select;
      const Progress next = p.after(chain.backward[i + 1], select);
      return select > 0 ? next.selected : next.made;
    }
    return tensors.rest.empty() ? 0 : p.after(chain.tail, 0).made;
  };
  for (std::size_t i = 0; i < chain.elements.size(); ++i) {
    const double elements = chain.elements[i];
    const BucketCost all = dense.of(elements);
    const Progress whole = now.after(chain.backward[i], all.select);
    const double all_sent = whole.start(all.select) + all.exchange;
    const bool hidden = all_sent <= next_start(i, whole);
    plan.buckets.push_back(hidden ? dense.like() : job.sparse);
    BucketPlan& bucket = plan.buckets.back();
    bucket.tensors = {tensors.tensors[i]};
    if (hidden) {
      now = whole;
      now.sent = all_sent;
      continue;
    }
    const double select = sparse.of(elements).select;
    now = now.after(chain.backward[i], select);
    const double start = now.start(select);
    const double density = std::max(
        job.density,
        round_down(highest(sparse, elements, next_start(i, now) - start,
                           job.density, std::max(job.density, params_.most))));
    if (density > job.density) bucket.density = density;
    const BucketCost cost = sparse.of(elements, density);
    now.sent = start + cost.exchange + cost.apply;
  }
  if (!tensors.rest.empty()) {
    plan.buckets.push_back(dense.like());
    plan.buckets.back().tensors = tensors.rest;
  }
  return plan;
}

}  // namespace sluice
