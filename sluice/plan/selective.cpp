#include "sluice/plan/selective.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "sluice/plan/chain.h"
#include "sluice/plan/simulate.h"
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
    work_[i] = {i + 1,      cost.select,          cost.exchange,
                cost.apply, way.applied_at_end(), way.beside()};
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

// How many steps of so many tensors there is time to simulate. With 20 million
// tensors in all `sluice plan make --planner espresso` took 0.5 s for a model
// of 20,000, on a core of an EPYC that others share (release preset,
// 2026-11-19).
std::size_t affordable_steps(std::size_t tensors) {
  constexpr std::size_t kTensors = 20'000'000;
  return std::max<std::size_t>(64,
                               kTensors / std::max<std::size_t>(1, tensors));
}

// Items in their order as at most `count` batches: the first half of the
// batches has one item each, and the others share the rest evenly.
using Batches = std::vector<std::vector<std::size_t>>;
Batches batches_of(const std::vector<std::size_t>& items, std::size_t count) {
  const bool all = items.size() <= count;
  const std::size_t alone = all ? items.size() : count / 2;
  const std::size_t rest = items.size() - alone;
  Batches batches(std::min(items.size(), count));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t shared = i - std::min(i, alone);
    const std::size_t batch =
        i < alone ? i : alone + shared * (count - alone) / rest;
    batches[batch].push_back(items[i]);
  }
  return batches;
}

// A tensor that travels alone.
struct Cut {
  std::size_t pieces = 1;
  double seconds = 0;
};

// Of 1 to `most` pieces as many as are through first, with nothing beside them.
Cut best_cut(const Job& job, const Way& way, const TensorProfile& tensor,
             std::size_t most) {
  const std::size_t rows = std::max<std::size_t>(1, rows_of(tensor));
  const auto work_of = [&](std::size_t part) {
    const BucketCost c =
        way.of(static_cast<double>(part * (tensor.elements / rows)));
    return BucketWork{0, c.select, c.exchange, c.apply, way.dense()};
  };
  Cut best;
  std::vector<BucketWork> work;
  for (std::size_t count = 1; count <= std::min(most, rows); ++count) {
    // Pieces differ by a row at most.
    const BucketWork less = work_of(rows / count);
    const BucketWork more =
        rows % count == 0 ? less : work_of(rows / count + 1);
    work.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const Piece piece{i, count};
      const bool small = piece.end(rows) - piece.begin(rows) == rows / count;
      work.push_back(small ? less : more);
    }
    const double seconds = run_timeline(0, {}, work, job.streams).end;
    if (count == 1 || seconds < best.seconds) best = {count, seconds};
  }
  return best;
}

void add_pieces(Plan& plan, const BucketPlan& like, std::size_t tensor,
                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    plan.buckets.push_back(like);
    plan.buckets.back().tensors = {tensor};
    plan.buckets.back().piece = {i, count};
  }
}

// Tensors of one size that travel in one way, those made last first: they are
// the farthest from the output, and if some are selected by the host, these.
struct Alike {
  std::vector<std::size_t> at;
  const Way* here = nullptr;
  const Way* there = nullptr;
  std::size_t offloaded = 0;  // the first so many
};

// The second of Espresso's algorithms: how many of each are selected by the
// host.
class Offloading {
 public:
  Offloading(TensorTimeline& timeline, const std::vector<double>& elements,
             std::vector<Alike> groups)
      : timeline_(timeline), elements_(elements), groups_(std::move(groups)) {}

  // Every combination, which is the best there is; of too many, one group after
  // another, the largest tensors first. Of very many tensors every so many
  // counts of a group, and only as many groups as there is time for.
  std::vector<Alike> run() {
    least_ = timeline_.run().end;
    double combinations = 1;
    for (const Alike& g : groups_) {
      combinations *= static_cast<double>(g.at.size() + 1);
    }
    best_ = groups_;
    if (combinations <= kMost) {
      try_all(0);
    } else {
      const std::size_t steps = affordable_steps(elements_.size());
      const std::size_t groups = std::min(groups_.size(), steps);
      for (std::size_t g = 0; g < groups; ++g) try_each(g, steps / groups);
    }
    return best_;
  }

 private:
  // Of combinations: as many steps as the first algorithm simulates for a
  // hundred tensors.
  static constexpr double kMost = 1024;

  void put(Alike& group, std::size_t count) {
    // Only those that change.
    const std::size_t from = std::min(count, group.offloaded);
    const std::size_t to = std::max(count, group.offloaded);
    for (std::size_t i = from; i < to; ++i) {
      const std::size_t at = group.at[i];
      timeline_.set(at, i < count ? *group.there : *group.here, elements_[at]);
    }
    group.offloaded = count;
  }
  void judge() {
    const double end = timeline_.run().end;
    if (end >= least_) return;
    least_ = end;
    best_ = groups_;
  }
  void try_all(std::size_t from) {
    if (from == groups_.size()) {
      judge();
      return;
    }
    for (std::size_t count = 0; count <= groups_[from].at.size(); ++count) {
      put(groups_[from], count);
      try_all(from + 1);
    }
  }
  void try_each(std::size_t g, std::size_t steps) {
    const std::size_t most = groups_[g].at.size();
    const std::size_t stride = (most + steps - 1) / steps;
    for (std::size_t count = 0; count < most;) {
      count = std::min(most, count + stride);
      put(groups_[g], count);
      judge();
    }
    put(groups_[g], best_[g].offloaded);
  }

  TensorTimeline& timeline_;
  const std::vector<double>& elements_;
  std::vector<Alike> groups_;
  std::vector<Alike> best_;
  double least_ = 0;
};

// Puts on the host what gains by that. The first buckets of the plan are the
// tensors of the timeline, which stands as the plan does.
void offload(const Job& job, TensorTimeline& timeline,
             const std::vector<double>& elements, Plan& plan) {
  // Leaders of machines select where gradients are.
  if (job.hierarchical) return;
  std::map<std::string, std::pair<Way, Way>> ways;  // by collective
  std::map<std::pair<double, std::string>, Alike, std::greater<>> alike;
  for (std::size_t i = elements.size(); i-- > 0;) {
    BucketPlan here = plan.buckets[i];
    if (here.dense() || job.offloads(here)) continue;
    here.tensors.clear();
    BucketPlan there = here;
    there.device = "cpu";
    if (!job.offloads(there) || !Way::priced(job, there)) continue;
    auto way = ways.find(here.collective);
    if (way == ways.end()) {
      way = ways.emplace(here.collective,
                         std::pair(Way(job, here), Way(job, there)))
                .first;
    }
    Alike& group = alike[{elements[i], here.collective}];
    group.at.push_back(i);
    group.here = &way->second.first;
    group.there = &way->second.second;
  }
  std::vector<Alike> groups;
  for (auto& [key, group] : alike) groups.push_back(std::move(group));
  if (groups.empty()) return;
  for (const Alike& g : Offloading(timeline, elements, groups).run()) {
    for (std::size_t i = 0; i < g.offloaded; ++i) {
      plan.buckets[g.at[i]].device = "cpu";
    }
  }
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
  const auto most = static_cast<std::size_t>(
      std::min(job.ranks, static_cast<double>(params_.pieces)));
  for (std::size_t t = job.profile.tensors.size(); t-- > 0;) {
    const TensorProfile& tensor = job.profile.tensors[t];
    const double own = 4 * static_cast<double>(tensor.elements);
    // What is smaller shares a batch.
    const bool alone = own > static_cast<double>(params_.batch);
    const Cut raw = best_cut(job, dense, tensor, alone ? most : 1);
    const Cut coded =
        job.must_be_dense(t) ? raw : best_cut(job, sparse, tensor, most);
    if (coded.seconds < raw.seconds) {
      add_pieces(plan, job.sparse, t, coded.pieces);
      continue;
    }
    if (raw.pieces > 1) {
      add_pieces(plan, dense.like(), t, raw.pieces);
      continue;
    }
    batch.tensors.push_back(t);
    bytes += own;
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
  const auto put = [&](const std::vector<std::size_t>& batch, std::size_t way) {
    for (const std::size_t i : batch) timeline.set(i, costs[way], elements[i]);
  };
  Timeline now = timeline.run();
  const std::size_t batches = affordable_steps(elements.size()) / ways.size();
  for (std::vector<std::size_t>& batch :
       batches_of(by_size(elements), batches)) {
    const std::size_t first = before_the_last_bubble(now);
    std::erase_if(batch, [&](std::size_t i) { return i < first; });
    if (batch.empty()) continue;
    std::size_t best = 0;
    for (std::size_t way = 1; way < ways.size(); ++way) {
      put(batch, way);
      Timeline tried = timeline.run();
      if (tried.end >= now.end) continue;
      now = std::move(tried);
      best = way;
    }
    put(batch, best);
    for (const std::size_t i : batch) groups[i].way = best;
  }
  Plan plan = plan_of(tensors, groups, ways, ways[0]);
  Plan other = plan;
  offload(job, timeline, elements, other);
  const bool shorter = other != plan && iteration_seconds(other, job) <
                                            iteration_seconds(plan, job);
  return shorter ? other : plan;
}

}  // namespace sluice
