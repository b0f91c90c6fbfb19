#include "sluice/plan/selective.h"

#include <algorithm>
#include <numeric>

#include "sluice/plan/chain.h"
#include "sluice/plan/ways.h"

namespace sluice {
namespace {

// Every tensor that may be sparse by itself, and the rest, on the timeline.
class TensorTimeline {
 public:
  TensorTimeline(const Job& job, const TensorChain& tensors)
      : streams_(job.streams), backward_(tensors.chain.backward) {
    backward_.push_back(tensors.chain.tail);
    for (std::size_t i = 0; i < tensors.tensors.size(); ++i) {
      work_.push_back({i + 1, 0, 0, 0});
    }
    work_.push_back({backward_.size(), 0, tensors.chain.last, 0});
  }

  void set(std::size_t i, const Way& way, double elements) {
    const BucketCost cost = way.of(elements);
    work_[i] = {i + 1, cost.select, cost.exchange, cost.apply, way.dense()};
  }
  Timeline run() const { return run_timeline(0, backward_, work_, streams_); }

 private:
  Streams streams_;
  std::vector<double> backward_;
  std::vector<BucketWork> work_;
};

// Buckets before the last time that the link waits for one: nothing is gained
// by sending them faster.
std::size_t before_the_last_bubble(const Timeline& t) {
  for (std::size_t i = t.buckets.size(); i-- > 1;) {
    const BucketTimes& b = t.buckets[i];
    const bool waits = b.exchange.begin > b.select.end;
    if (!waits && b.exchange.begin > t.buckets[i - 1].exchange.end) return i;
  }
  return 0;
}

// The largest first; of equals the one that is made first.
std::vector<std::size_t> by_size(const std::vector<double>& elements) {
  std::vector<std::size_t> order(elements.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(
      order.begin(), order.end(),
      [&](std::size_t a, std::size_t b) { return elements[a] > elements[b]; });
  return order;
}

}  // namespace

Plan Hipress::plan(const Job& job) const {
  const Way sparse(job, job.sparse);
  const Way dense(job, dense_bucket(job, job.dense_collective));
  Plan plan;
  BucketPlan batch = dense.like();
  double bytes = 0;
  const auto flush = [&] {
    if (batch.tensors.empty()) return;
    plan.buckets.push_back(batch);
    batch.tensors.clear();
    bytes = 0;
  };
  for (std::size_t t = job.profile.tensors.size(); t-- > 0;) {
    const auto elements = static_cast<double>(job.profile.tensors[t].elements);
    const bool compress =
        !job.must_be_dense(t) &&
        sparse.of(elements).seconds() < dense.of(elements).seconds();
    if (compress) {
      plan.buckets.push_back(job.sparse);
      plan.buckets.back().tensors = {t};
      continue;
    }
    batch.tensors.push_back(t);
    bytes += 4 * elements;
    if (bytes >= static_cast<double>(params_.batch)) flush();
  }
  flush();
  return plan;
}

Plan Espresso::plan(const Job& job) const {
  std::vector<BucketPlan> ways = dense_ways(job);
  const Way rest(job, ways[0]);
  for (BucketPlan& way : sparse_ways(job)) ways.push_back(std::move(way));
  std::vector<Way> costs;
  for (const BucketPlan& way : ways) costs.emplace_back(job, way);
  const TensorChain tensors(job, grouped_tensors(job), rest);
  const std::vector<double>& elements = tensors.chain.elements;

  TensorTimeline timeline(job, tensors);
  Groups groups = each_alone(tensors.chain);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    timeline.set(i, costs[0], elements[i]);
  }
  Timeline now = timeline.run();
  for (const std::size_t i : by_size(elements)) {
    if (i < before_the_last_bubble(now)) continue;
    for (std::size_t way = 1; way < ways.size(); ++way) {
      timeline.set(i, costs[way], elements[i]);
      Timeline tried = timeline.run();
      if (tried.end >= now.end) continue;
      now = std::move(tried);
      groups[i].way = way;
    }
    timeline.set(i, costs[groups[i].way], elements[i]);
  }
  return plan_of(tensors, groups, ways, ways[0]);
}

}  // namespace sluice
