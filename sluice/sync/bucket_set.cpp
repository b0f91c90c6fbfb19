#include "sluice/sync/bucket_set.h"

#include "sluice/core/ensure.h"

namespace sluice {

BucketSet::BucketSet(Backend& backend, std::vector<TensorInfo> tensors,
                     std::vector<Treatment> treatments)
    : backend_(backend),
      tensors_(std::move(tensors)),
      treatments_(std::move(treatments)) {
  std::size_t elements = 0;
  for (const TensorInfo& t : tensors_) {
    names_.push_back(t.name);
    memory_.push_back(elements);
    elements += shape3(t.dims).size();
  }
  arena_ = std::make_unique<Arena>(backend_, elements);
}

void BucketSet::take(const Plan& plan) {
  check_plan(plan, names_);
  // Buckets that are as they were keep what they have learned.
  std::vector<std::unique_ptr<BucketSync>> made;
  for (const BucketPlan& bucket : plan.buckets) {
    made.push_back(find(bucket) != nullptr ? nullptr : make(bucket));
  }
  bucket_of_.resize(tensors_.size());
  for (std::size_t b = 0; b < made.size(); ++b) {
    for (const std::size_t t : plan.buckets[b].tensors) bucket_of_[t] = b;
    if (made[b] != nullptr) continue;
    made[b] = std::move(*find(plan.buckets[b]));
  }
  buckets_ = std::move(made);
}

std::unique_ptr<BucketSync>* BucketSet::find(const BucketPlan& plan) {
  for (auto& bucket : buckets_) {
    if (bucket != nullptr && bucket->plan() == plan) return &bucket;
  }
  return nullptr;
}

std::unique_ptr<BucketSync> BucketSet::make(const BucketPlan& plan) {
  auto bucket = make_bucket_sync({.backend = backend_,
                                  .arena = *arena_,
                                  .plan = plan,
                                  .tensors = tensors_,
                                  .memory = memory_,
                                  .treatments = treatments_});
  // Another plan may have left something behind.
  if (!buckets_.empty()) bucket->inherit_residual();
  return bucket;
}

std::size_t BucketSet::memory_bytes() const {
  std::size_t bytes = arena_->size() * sizeof(float);
  for (const auto& bucket : buckets_) bytes += bucket->memory_bytes();
  return bytes;
}

GradientSync::State BucketSet::save(Stream& stream) {
  GradientSync::State state;
  state.residual = fetch(stream, arena_->residual());
  if (arena_->has_momentum()) {
    state.momentum = fetch(stream, arena_->momentum(backend_));
  }
  for (const auto& bucket : buckets_) {
    state.rules.push_back(bucket->save_rule(stream));
    state.collectives.push_back(bucket->save_collective());
  }
  return state;
}

void BucketSet::load(Stream& stream, const GradientSync::State& state) {
  const std::size_t n = arena_->size();
  require(state.residual.size() == n &&
              (state.momentum.empty() || state.momentum.size() == n),
          "[sync] the saved residual must have ", n, " elements, got ",
          state.residual.size());
  require(state.rules.empty() || (state.rules.size() == buckets_.size() &&
                                  state.collectives.size() == buckets_.size()),
          "[sync] the saved state must be of ", buckets_.size(),
          " buckets, got ", state.rules.size());
  backend_.copy_in(stream, arena_->residual(),
                   std::as_bytes(std::span(state.residual)));
  if (!state.momentum.empty()) {
    backend_.copy_in(stream, arena_->momentum(backend_),
                     std::as_bytes(std::span(state.momentum)));
  }
  for (std::size_t b = 0; b < state.rules.size(); ++b) {
    buckets_[b]->load_rule(stream, state.rules[b]);
    buckets_[b]->load_collective(state.collectives[b]);
  }
  for (auto& bucket : buckets_) bucket->inherit_residual();
}

std::vector<float> BucketSet::fetch(Stream& stream, const float* device) {
  std::vector<float> host(arena_->size());
  backend_.copy_out(stream, std::as_writable_bytes(std::span(host)), device);
  backend_.wait(backend_.record(stream));
  return host;
}

}  // namespace sluice
