#include "sluice/plan/job.h"

#include <algorithm>
#include <cmath>

#include "sluice/core/error.h"
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
          "[plan] density must be above 0 and at most 1, got ", job.density);
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
    require(net.alpha >= 0 && net.beta >= 0 && std::isfinite(net.alpha) &&
                std::isfinite(net.beta),
            "[plan] alpha and beta must be 0 or more, got ", net.alpha, " and ",
            net.beta);
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
  return bucket;
}

BucketPlan usual_bucket(const Job& job) {
  return job.all_dense() ? dense_bucket(job, job.dense_collective) : job.sparse;
}

double vote_seconds(const Job& job) {
  if (job.ranks <= 1) return 0;
  // A choice, a rank, the notes, and a count per bucket, of which there are as
  // many as tensors at most: so no plan is shorter for its vote.
  const double bytes =
      8.0 * (3 + static_cast<double>(job.profile.tensors.size()));
  const Network net = flat_network(job.network, job.ranks, false);
  return star_cost(job.ranks, bytes, net).seconds;
}

Way::Way(const Job& job, const BucketPlan& like, bool free)
    : job_(&job),
      like_(like),
      row_(&row_of(job, like.collective)),
      dense_(like.sparsifier == "none"),
      free_(free),
      density_(like.density.value_or(job.density)),
      value_bytes_(like.values == "fp32" ? 4 : 2) {
  const std::string method = parse_spec(like.sparsifier).name;
  const auto curve = [&](std::string_view what) {
    return job.profile.find(what, method, job.device);
  };
  curves_ = {curve("select"), curve("encode"), curve("decode"),
             curve("merge"),  curve("apply"),  curve("sum")};
}

Rates Way::rates(double entries, double elements) const {
  if (free_) return {0, 0, 0, 0, 0};
  Rates r;
  r.encode = rate_of(curves_.encode, entries, r.encode);
  r.decode = rate_of(curves_.decode, entries, r.decode);
  r.merge = rate_of(curves_.merge, entries, r.merge);
  r.dense = rate_of(curves_.sum, elements, r.dense);
  return r;
}

Cost Way::exchange(const Workload& load, const Rates& rates) const {
  const Topology& net = job_->network;
  if (!job_->hierarchical || !net.two_level()) {
    const bool ring = row_->dense;
    return row_->of(load, flat_network(net, load.ranks, ring), rates);
  }
  const double together = std::min(load.ranks, net.per_machine);
  const double machines = std::ceil(load.ranks / net.per_machine);
  Workload few = load;
  few.ranks = machines;
  if (!dense_) few.u = independent_union(load.n, load.k, machines);
  Cost cost = row_->of(few, net.between, rates);
  if (together > 1) {
    cost = cost + ring_cost(load.n, 4, together, net.inside, rates);
    if (!dense_) {
      cost = cost + std::ceil(std::log2(together)) *
                        message_cost(coded_bytes(few.u, few.n), net.inside);
    }
  }
  return cost;
}

BucketCost Way::of(double elements, double density) const {
  BucketCost out;
  if (elements <= 0) return out;
  Workload load;
  load.n = elements;
  load.ranks = job_->ranks;
  load.skew = kUnknownSkew;
  load.value_bytes = value_bytes_;
  load.k = dense_ ? elements : std::max(1.0, density * elements);
  load.u = dense_ ? elements : independent_union(load.n, load.k, load.ranks);
  const Cost cost = exchange(load, rates(load.k, load.n / load.ranks));
  out.exchange = cost.seconds;
  out.bytes = cost.bytes;
  if (free_) return out;
  if (curves_.select != nullptr) out.select = curves_.select->at(elements);
  if (curves_.apply != nullptr) out.apply = curves_.apply->at(load.u);
  return out;
}

}  // namespace sluice
