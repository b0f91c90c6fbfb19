#include "sluice/plan/job.h"

#include <algorithm>
#include <cmath>

#include "sluice/core/error.h"
#include "sluice/core/number_text.h"
#include "sluice/core/params.h"
#include "sluice/cost/patterns.h"

namespace sluice {
namespace {

// What ranks of several machines see of the networks when all of them talk at
// once. Around a ring one message in a machine's worth leaves it; else the
// ranks of a machine share its port.
Network flat_network(const Topology& t, double ranks, bool ring) {
  if (!t.two_level()) return t.between;
  if (ranks <= t.per_machine) return t.inside;
  if (ring) return t.between;
  const double out = (ranks - t.per_machine) / (ranks - 1);
  return {out * t.between.alpha + (1 - out) * t.inside.alpha,
          out * t.per_machine * t.between.beta + (1 - out) * t.inside.beta};
}

double rate_of(const CostCurve* curve, double size, double otherwise) {
  return curve == nullptr || size <= 0 ? otherwise : curve->at(size) / size;
}

double at_or_nothing(const CostCurve* curve, double size) {
  return curve == nullptr ? 0 : curve->at(size);
}

// A row by "name" or "name:key=value,...".
const CostRow& row_of(const Job& job, std::string_view collective) {
  return find_cost(job.collectives, parse_spec(collective).name);
}

}  // namespace

bool Job::must_be_dense(std::size_t tensor) const {
  return all_dense() ||
         (tensor < dense.size() && static_cast<bool>(dense[tensor]));
}

void check_job(const Job& job) {
  check_profile(job.profile);
  require(job.ranks >= 1 && job.ranks == std::floor(job.ranks) &&
              job.ranks <= 0x1p31,
          "[plan] the number of workers must be a whole number from 1 to 2^31, "
          "got ",
          job.ranks);
  require(job.density > 0 && job.density <= 1,
          "[plan] density must be above 0 and at most 1, got ",
          shortest(job.density));
  require(job.dense.empty() || job.dense.size() == job.profile.tensors.size(),
          "[plan] must know of each of ", job.profile.tensors.size(),
          " tensors whether it stays dense, knows of ", job.dense.size());
  const CostRow& sparse = row_of(job, job.sparse.collective);
  require(job.all_dense() || carries_values(job, sparse), "[plan] collective '",
          sparse.name,
          "' would send values in full width all the same, got values '",
          job.sparse.values,
          "'; use values fp32, or a collective that saves by it, as balanced");
  const CostRow& dense = row_of(job, job.dense_collective);
  require(dense.dense, "[plan] dense tensors need a collective that sums ",
          "vectors, such as dense or dense-bf16, got '", job.dense_collective,
          "'");
  for (const Network& net : {job.network.between, job.network.inside}) {
    require(net.alpha >= 0 && net.beta >= 0 && net.alpha <= kMostSeconds &&
                net.beta <= kMostSeconds,
            "[plan] alpha and beta of the network must be seconds from 0 to "
            "1e9, got ",
            net.alpha, " and ", net.beta);
  }
}

bool carries_values(const Job& job, const CostRow& row) {
  if (job.sparse.values == "bf16") return row.carries_bf16;
  return job.sparse.values != "fp16" || row.carries_fp16;
}

PlanInput plan_input(const Job& job) {
  PlanInput input;
  for (const TensorProfile& t : job.profile.tensors) {
    input.sizes.push_back(t.elements);
  }
  input.dense = job.dense;
  input.sparse = job.sparse;
  input.dense_collective = job.dense_collective;
  return input;
}

std::vector<bool> dense_tensors(const Profile& profile, std::size_t dims,
                                std::size_t below) {
  std::vector<bool> dense;
  for (const TensorProfile& t : profile.tensors) {
    const bool flat = !t.shape.empty() && t.shape.size() <= dims;
    dense.push_back(flat || t.elements < below);
  }
  return dense;
}

BucketPlan dense_bucket(const Job& job, std::string_view collective) {
  BucketPlan bucket = job.sparse;
  bucket.sparsifier = "none";
  bucket.collective = collective;
  bucket.density.reset();
  bucket.turns.clear();
  bucket.device.clear();
  return bucket;
}

BucketPlan usual_bucket(const Job& job) {
  return job.all_dense() ? dense_bucket(job, job.dense_collective) : job.sparse;
}

std::size_t rows_of(const TensorProfile& tensor) {
  return tensor.shape.empty() ? tensor.elements : tensor.shape[0];
}

std::size_t bucket_elements(const Profile& profile, const BucketPlan& bucket) {
  std::size_t sum = 0;
  for (const std::size_t t : bucket.tensors) {
    const TensorProfile& tensor = profile.tensors[t];
    const std::size_t rows = std::max<std::size_t>(1, rows_of(tensor));
    sum += (bucket.piece.end(rows) - bucket.piece.begin(rows)) *
           (tensor.elements / rows);
  }
  return sum;
}

double vote_seconds(const Job& job, std::size_t buckets) {
  if (job.ranks <= 1) return 0;
  // A choice, a rank, the notes, and a count per bucket; of whole tensors there
  // are as many as tensors at most, so that no plan is shorter for its vote.
  const double bytes =
      8.0 *
      (3 + static_cast<double>(std::max(buckets, job.profile.tensors.size())));
  const Network net = flat_network(job.network, job.ranks, false);
  return star_cost(job.ranks, bytes, net).seconds;
}

bool Way::priced(const Job& job, const BucketPlan& like) {
  if (!job.offloads(like)) return true;
  const auto known = [&](const std::string& sparsifier) {
    const std::string method = parse_spec(sparsifier).name;
    return job.profile.find("copy", method, job.device) != nullptr &&
           job.profile.find("select", method, like.device) != nullptr &&
           job.profile.find("apply", method, like.device) != nullptr;
  };
  return known(like.sparsifier) && std::ranges::all_of(like.turns, known);
}

Way::Way(const Job& job, const BucketPlan& like, bool free, bool hierarchical)
    : job_(&job),
      like_(like),
      row_(&row_of(job, like.collective)),
      dense_(like.sparsifier == "none"),
      of_machines_(hierarchical && job.shares_machines()),
      offloaded_(job.offloads(like)),
      free_(free),
      density_(like.density.value_or(job.density)),
      value_bytes_(like.values == "fp32" ? 4 : 2),
      pack_(job.profile.find("select", "none", job.device)) {
  require(priced(job, like), "[plan] a bucket on the ", like.device,
          " needs costs of copy on ", job.device,
          " and of select and apply of ", like.sparsifier, " on ", like.device,
          ", and the profile lacks some; sluice train --profile 20 on a GPU "
          "measures them");
  const std::string& device = offloaded_ ? like.device : job.device;
  const auto add_curves = [&](const std::string& sparsifier) {
    const std::string method = parse_spec(sparsifier).name;
    const auto curve = [&](std::string_view what) {
      return job.profile.find(what, method, device);
    };
    curves_.push_back(
        {curve("select"), curve("encode"), curve("decode"), curve("merge"),
         curve("apply"), curve("sum"),
         offloaded_ ? job.profile.find("copy", method, job.device) : nullptr});
  };
  add_curves(like.sparsifier);
  for (const std::string& rule : like.turns) add_curves(rule);
}

Rates Way::rates(const Curves& curves, double entries, double elements) const {
  if (free_) return {0, 0, 0, 0, 0};
  Rates r;
  r.encode = rate_of(curves.encode, entries, r.encode);
  r.decode = rate_of(curves.decode, entries, r.decode);
  r.merge = rate_of(curves.merge, entries, r.merge);
  r.dense = rate_of(curves.sum, elements, r.dense);
  return r;
}

Cost Way::exchange(const Workload& load, const Rates& rates,
                   const Topology& net) const {
  if (of_machines_) return exchange_machines(load, rates, net);
  return row_->of(load, flat_network(net, load.ranks, row_->dense), rates);
}

// The leader's: its machine's sum, the exchange with the others, and what it
// hands out.
Cost Way::exchange_machines(const Workload& load, const Rates& rates,
                            const Topology& net) const {
  const double together = std::min(job_->ranks, net.per_machine);
  const Cost cost = row_->of(load, net.between, rates) +
                    machine_sum_cost(load.n, together, net.inside, rates);
  // Most of it is dense, if it is not few.
  if (dense_ || 2 * load.u > load.n) {
    return cost + machine_copy_cost(load.n, together, net.inside);
  }
  return cost + std::ceil(std::log2(together)) *
                    message_cost(coded_bytes(load.u, load.n), net.inside);
}

// What of an exchange the processor is at.
double Way::work_of(const Workload& load, const Rates& rates,
                    const Cost& whole) const {
  Topology net = job_->network;
  for (Network* n : {&net.between, &net.inside}) {
    n->alpha = std::min(n->alpha, kMessageWork.alpha);
    n->beta = std::min(n->beta, kMessageWork.beta);
  }
  return std::min(whole.seconds, exchange(load, rates, net).seconds);
}

BucketCost Way::of(double elements, double density) const {
  BucketCost out;
  if (elements <= 0) return out;
  Workload load;
  load.n = elements;
  load.ranks = of_machines_ ? std::ceil(job_->ranks / job_->network.per_machine)
                            : job_->ranks;
  load.skew = kUnknownSkew;
  load.value_bytes = value_bytes_;
  load.k = dense_ ? elements : std::max(1.0, density * elements);
  load.u = dense_ ? elements : independent_union(load.n, load.k, load.ranks);
  const double share = 1 / static_cast<double>(curves_.size());
  double work = 0;
  for (const Curves& curves : curves_) {
    const Rates rate = rates(curves, load.k, load.n / load.ranks);
    const Cost cost = exchange(load, rate, job_->network);
    out.exchange += share * cost.seconds;
    out.bytes += share * cost.bytes;
    if (free_) continue;
    if (job_->streams.one_core) work += share * work_of(load, rate, cost);
    const double copy = at_or_nothing(curves.copy, elements);
    out.select += share * (at_or_nothing(curves.select, elements) + copy);
    out.apply += share * (at_or_nothing(curves.apply, load.u) + copy);
  }
  out.exchange -= work;
  out.select += work;
  if (free_ || !of_machines_ || dense_) return out;
  // Leaders select where they exchange, and copy what they may have to put
  // back; beside backward gradients are packed.
  const double pack = at_or_nothing(pack_, elements);
  out.exchange += out.select + pack;
  out.select = pack;
  return out;
}

}  // namespace sluice
