#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ranks.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/comm/threads/threads.h"
#include "sluice/core/hash.h"
#include "sluice/sync/gradient_sync.h"
#include "staged_link.h"
#include "support.h"

// A small model and its gradients, for tests of GradientSync.

namespace sluice::testing {

inline const std::vector<TensorInfo> kTensors = {
    {"a.weight", {20, 30}}, {"a.bias", {20}}, {"b.weight", {10, 20, 3, 3}},
    {"b.bias", {10}},       {"empty", {0}},   {"c.weight", {50, 10}}};

inline std::size_t size_of(const TensorInfo& t) {
  return shape3(t.dims).size();
}

inline std::size_t total_size() {
  std::size_t n = 0;
  for (const TensorInfo& t : kTensors) n += size_of(t);
  return n;
}

struct Scenario {
  std::string plan = "layerwise";
  std::string sparsifier = "topk";
  std::string feedback = "residual";
  std::string collective = "auto";
  std::size_t ranks = 3;
  std::uint64_t steps = 4;
  NonFinite nonfinite = NonFinite::kSkip;
  std::uint64_t nan_at = 99;
  bool positive = false;  // gradients, so that masses add up
  std::string backend = "cpu/portable";
  std::size_t pieces = 1;            // of each tensor
  std::vector<std::string> turns{};  // of sparse buckets
  // Of the ranks, for a hierarchical plan; empty: a flat one.
  std::vector<std::size_t> machine_of{};
  bool offload = false;  // every other sparse bucket to the host
};

// The same plan, with every bucket in so many pieces, one after the other.
inline Plan in_pieces(const Plan& plan, std::size_t count) {
  Plan out = plan;
  out.buckets.clear();
  for (BucketPlan b : plan.buckets) {
    for (std::size_t i = 0; i < count; ++i) {
      b.piece = {i, count};
      out.buckets.push_back(b);
    }
  }
  return out;
}

inline Plan plan_of(const Scenario& job) {
  PlanInput in;
  for (const TensorInfo& t : kTensors) {
    in.sizes.push_back(size_of(t));
    in.dense.push_back(t.dims.size() < 2);
  }
  in.sparse.sparsifier = job.sparsifier;
  in.sparse.feedback = job.feedback;
  in.sparse.collective = job.collective;
  in.sparse.turns = job.turns;
  in.sparse.density = 0.1;
  if (job.sparsifier == "none") in.dense_collective = job.collective;
  Plan plan = in_pieces(make_plan(job.plan, in), job.pieces);
  plan.hierarchical = !job.machine_of.empty();
  bool next = job.offload;
  for (BucketPlan& b : plan.buckets) {
    if (b.dense() || !job.offload) continue;
    if (next) b.device = "cpu";
    next = !next;
  }
  return plan;
}

using Gradients = std::vector<std::vector<float>>;

inline Gradients gradients_of(std::size_t rank, std::uint64_t step) {
  Gradients out;
  for (std::size_t t = 0; t < kTensors.size(); ++t) {
    out.push_back(gaussian(size_of(kTensors[t]), 1000 * rank + 10 * step + t));
  }
  return out;
}

inline void make_positive(Gradients& gradients) {
  for (auto& g : gradients) {
    for (float& v : g) v = std::abs(v);
  }
}

inline bool has_collective(std::string_view name) {
  const auto all = collectives();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& entry) { return entry.name == name; });
}

inline std::vector<float> flat(const Gradients& gradients) {
  std::vector<float> out;
  for (const auto& g : gradients) out.insert(out.end(), g.begin(), g.end());
  return out;
}

// Loses one message of rank 0, counted over the whole run.
inline Fate drop_number(void* context, std::size_t from, std::size_t,
                        std::uint64_t number) {
  return from == 0 && number == *static_cast<std::uint64_t*>(context)
             ? Fate::kDrop
             : Fate::kDeliver;
}

// Whether a rank's last step was committed, by what finish() returned, if it
// did, and by what recover() found out afterwards.
inline bool was_committed(bool finished, Recovered recovered) {
  return recovered == Recovered::kNoStep ? finished
                                         : recovered == Recovered::kCommitted;
}

// Gradients in memory of a device.
class DeviceGradients {
 public:
  explicit DeviceGradients(Backend& backend)
      : backend_(backend),
        stream_(backend.make_stream()),
        data_(backend.allocate(total_size() * sizeof(float))) {}

  void set(const Gradients& gradients) {
    const std::vector<float> all = flat(gradients);
    backend_.copy_in(*stream_, data_.data(), std::as_bytes(std::span(all)));
    event_ = backend_.record(*stream_);
  }
  void announce(GradientSync& sync, std::size_t tensor) {
    std::size_t base = 0;
    for (std::size_t t = 0; t < tensor; ++t) base += size_of(kTensors[t]);
    sync.ready(
        tensor,
        contiguous_view(data_.data<float>() + base, kTensors[tensor].dims),
        event_);
  }
  void announce_all(GradientSync& sync) {
    for (std::size_t t = kTensors.size(); t-- > 0;) announce(sync, t);
  }
  // A whole step with these gradients.
  SyncReport run(GradientSync& sync, std::uint64_t step,
                 const Gradients& gradients) {
    set(gradients);
    sync.begin(step);
    announce_all(sync);
    return sync.finish();
  }
  std::vector<float> get() {
    std::vector<float> host(total_size());
    backend_.copy_out(*stream_, std::as_writable_bytes(std::span(host)),
                      data_.data());
    backend_.wait(backend_.record(*stream_));
    return host;
  }

 private:
  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  Buffer data_;
  Event event_;
};

}  // namespace sluice::testing
