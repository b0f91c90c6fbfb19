#include "sluice/sync/bucket_set.h"

#include <algorithm>

#include "sluice/core/ensure.h"

namespace sluice {
namespace {

// With other machines other ranks lead, and what collectives have learned is
// the leaders' alone: it goes with this number, which a double holds.
double tag_of(const Machines& machines) {
  return static_cast<double>(machines.digest() >> 11);
}

}  // namespace

BucketSet::BucketSet(Backend& backend, std::vector<TensorInfo> tensors,
                     std::vector<Treatment> treatments, Backend* host)
    : backend_(backend),
      tensors_(std::move(tensors)),
      treatments_(std::move(treatments)),
      given_host_(host) {
  std::size_t elements = 0;
  for (const TensorInfo& t : tensors_) {
    names_.push_back(t.name);
    memory_.push_back(elements);
    elements += shape3(t.dims).size();
  }
  arena_ = std::make_unique<Arena>(backend_, elements);
}

void BucketSet::take(const Plan& plan, const Machines* machines, Keep keep) {
  check_plan(plan, names_);
  std::vector<BucketPlan> plans;
  for (const BucketPlan& b : plan.buckets) plans.push_back(placed(b));
  std::unique_ptr<HostSide> fresh;
  const bool offloads =
      std::any_of(plans.begin(), plans.end(),
                  [](const BucketPlan& b) { return !b.device.empty(); });
  if (offloads && host_ == nullptr) {
    fresh = std::make_unique<HostSide>(backend_, given_host_, arena_->size());
  }
  HostSide* host = fresh != nullptr ? fresh.get() : host_.get();
  // Buckets that are as they were keep what they have learned: on whom they
  // exchange with, that is.
  const bool keeps = keep == Keep::kWhatStays && machines == machines_;
  std::vector<std::unique_ptr<BucketSync>> made;
  for (const BucketPlan& bucket : plans) {
    made.push_back(keeps && find(bucket) != nullptr
                       ? nullptr
                       : make(bucket, machines, host));
  }
  machines_ = machines;
  buckets_of_.assign(tensors_.size(), {});
  for (std::size_t b = 0; b < made.size(); ++b) {
    for (const std::size_t t : plans[b].tensors) buckets_of_[t].push_back(b);
    if (made[b] != nullptr) continue;
    made[b] = std::move(*find(plans[b]));
  }
  buckets_ = std::move(made);
  if (fresh != nullptr) host_ = std::move(fresh);
  if (host_ == nullptr) return;
  move_memories(host_ranges(), *host_);
  if (on_host_.empty()) host_.reset();
}

BucketPlan BucketSet::placed(BucketPlan plan) const {
  if (backend_.is_host()) plan.device.clear();
  return plan;
}

std::unique_ptr<BucketSync>* BucketSet::find(const BucketPlan& plan) {
  for (auto& bucket : buckets_) {
    if (bucket != nullptr && bucket->plan() == plan) return &bucket;
  }
  return nullptr;
}

std::unique_ptr<BucketSync> BucketSet::make(const BucketPlan& plan,
                                            const Machines* machines,
                                            HostSide* host) {
  const bool shared = machines != nullptr && machines->shared();
  const BucketSync::Setup setup{.backend = backend_,
                                .arena = *arena_,
                                .plan = plan,
                                .tensors = tensors_,
                                .memory = memory_,
                                .treatments = treatments_,
                                .machines = shared ? machines : nullptr};
  auto bucket = plan.device.empty() ? make_bucket_sync(setup)
                                    : make_offloaded_bucket(setup, *host);
  // Another plan may have left something behind.
  if (!buckets_.empty()) bucket->inherit_residual();
  return bucket;
}

BucketSet::Ranges BucketSet::host_ranges() const {
  Ranges ranges;
  for (const auto& bucket : buckets_) {
    if (bucket->plan().device.empty()) continue;
    for (const Segment& s : bucket->bucket().segments()) {
      ranges.push_back({s.memory, s.memory + s.shape.size()});
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  return ranges;
}

BucketSet::Ranges BucketSet::minus(const Ranges& all, const Ranges& others) {
  Ranges out;
  for (const Range& r : all) {
    std::size_t from = r.begin;
    for (const Range& o : others) {
      if (o.end <= from) continue;
      if (o.begin >= r.end) break;
      if (o.begin > from) out.push_back({from, o.begin});
      from = o.end;
    }
    if (from < r.end) out.push_back({from, r.end});
  }
  return out;
}

void BucketSet::move_memories(const Ranges& now, HostSide& host) {
  const auto stream = backend_.make_stream();
  const auto both = [&](const Ranges& ranges, bool to_host) {
    if (ranges.empty()) return;
    copy(*stream, ranges, arena_->residual(), host.arena.residual(), to_host);
    if (!arena_->has_momentum() && !host.arena.has_momentum()) return;
    copy(*stream, ranges, arena_->momentum(backend_),
         host.arena.momentum(host.backend), to_host);
  };
  both(minus(now, on_host_), true);
  both(minus(on_host_, now), false);
  backend_.wait(backend_.record(*stream));
  on_host_ = now;
}

void BucketSet::copy(Stream& stream, const Ranges& ranges, float* device,
                     float* host, bool to_host) {
  for (const Range& r : ranges) {
    const std::span<float> values(host + r.begin, r.end - r.begin);
    if (to_host) {
      backend_.copy_out(stream, std::as_writable_bytes(values),
                        device + r.begin);
    } else {
      backend_.copy_in(stream, device + r.begin, std::as_bytes(values));
    }
  }
}

std::size_t BucketSet::memory_bytes() const {
  std::size_t bytes = arena_->memory_bytes();
  if (host_ != nullptr) bytes += host_->memory_bytes();
  if (aside_ != nullptr) bytes += aside_->arena.memory_bytes();
  for (const auto& bucket : buckets_) bytes += bucket->memory_bytes();
  return bytes;
}

GradientSync::State BucketSet::save(Stream& stream) {
  GradientSync::State state;
  const bool host = host_ != nullptr;
  state.residual = fetch(stream, arena_->residual(),
                         host ? host_->arena.residual() : nullptr);
  if (has_momentum()) {
    state.momentum =
        fetch(stream, arena_->momentum(backend_),
              host ? host_->arena.momentum(host_->backend) : nullptr);
  }
  for (const auto& bucket : buckets_) {
    state.rules.push_back(bucket->save_rule(stream));
    state.collectives.push_back(bucket->save_collective());
    if (machines_ == nullptr) continue;
    state.collectives.back().push_back(tag_of(*machines_));
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
  // To both arenas: whose a range is, is the plan's to say.
  const auto put = [&](Backend& backend, Stream& on, Arena& arena) {
    backend.copy_in(on, arena.residual(),
                    std::as_bytes(std::span(state.residual)));
    if (state.momentum.empty()) return;
    backend.copy_in(on, arena.momentum(backend),
                    std::as_bytes(std::span(state.momentum)));
  };
  put(backend_, stream, *arena_);
  if (host_ != nullptr) {
    put(host_->backend, host_->context.stream(), host_->arena);
  }
  for (std::size_t b = 0; b < state.rules.size(); ++b) {
    buckets_[b]->load_rule(stream, state.rules[b]);
    std::span<const double> learned = state.collectives[b];
    if (machines_ != nullptr) {
      if (learned.empty() || learned.back() != tag_of(*machines_)) continue;
      learned = learned.first(learned.size() - 1);
    }
    buckets_[b]->load_collective(learned);
  }
  inherit_residuals();
}

bool BucketSet::has_momentum() const {
  return arena_->has_momentum() ||
         (host_ != nullptr && host_->arena.has_momentum());
}

std::uint64_t BucketSet::digest_of_machines() const {
  return machines_ == nullptr ? 0 : machines_->digest();
}

void BucketSet::copy_aside(Stream& stream, float* aside, float* device,
                           float* host, bool back) {
  // As many elements as a tensor may have.
  constexpr std::size_t kMost = std::size_t{1} << 30;
  const float* from = back ? aside : device;
  float* to = back ? device : aside;
  for (std::size_t i = 0; i < arena_->size(); i += kMost) {
    const std::size_t n = std::min(kMost, arena_->size() - i);
    const TensorView part = flat_view({from + i, n});
    backend_.pack(stream, {{&part, 1}, {}, to + i});
  }
  copy(stream, on_host_, aside, host, back);
}

void BucketSet::set_aside(Stream& stream) {
  if (aside_ == nullptr) {
    aside_ = std::make_unique<Aside>(backend_, arena_->size());
  }
  HostSide* host = host_.get();
  copy_aside(stream, aside_->arena.residual(), arena_->residual(),
             host != nullptr ? host->arena.residual() : nullptr, false);
  aside_->has_momentum = has_momentum();
  if (aside_->has_momentum) {
    copy_aside(
        stream, aside_->arena.momentum(backend_), arena_->momentum(backend_),
        host != nullptr ? host->arena.momentum(host->backend) : nullptr, false);
  }
  aside_->machines = digest_of_machines();
  aside_->learned.clear();
  for (const auto& bucket : buckets_) {
    aside_->learned.push_back(
        {bucket->plan(), bucket->save_rule(stream), bucket->save_collective()});
  }
}

void BucketSet::bring_back(Stream& stream) {
  expect(aside_ != nullptr, "[sync] bring_back() must come after set_aside()");
  HostSide* host = host_.get();
  copy_aside(stream, aside_->arena.residual(), arena_->residual(),
             host != nullptr ? host->arena.residual() : nullptr, true);
  if (has_momentum()) {
    float* momentum = aside_->arena.momentum(backend_);
    // The first step with momentum has come since.
    if (!aside_->has_momentum) {
      backend_.fill(stream, momentum, arena_->size(), 0);
    }
    copy_aside(stream, momentum, arena_->momentum(backend_),
               host != nullptr ? host->arena.momentum(host->backend) : nullptr,
               true);
  }
  bring_back_learned(stream);
  inherit_residuals();
}

void BucketSet::bring_back_learned(Stream& stream) {
  const bool same = aside_->machines == digest_of_machines();
  for (auto& bucket : buckets_) {
    const auto known =
        std::ranges::find(aside_->learned, bucket->plan(), &Learned::plan);
    if (!same || known == aside_->learned.end()) {
      bucket = make(bucket->plan(), machines_, host_.get());
      continue;
    }
    bucket->load_rule(stream, known->rule);
    bucket->load_collective(known->collective);
    if (bucket->save_collective() == known->collective) continue;
    // A collective may refuse what it had before it learned anything.
    bucket = make(bucket->plan(), machines_, host_.get());
    bucket->load_rule(stream, known->rule);
    bucket->load_collective(known->collective);
  }
}

void BucketSet::inherit_residuals() {
  for (auto& bucket : buckets_) bucket->inherit_residual();
}

std::vector<float> BucketSet::fetch(Stream& stream, float* device,
                                    float* host) {
  std::vector<float> all(arena_->size());
  backend_.copy_out(stream, std::as_writable_bytes(std::span(all)), device);
  backend_.wait(backend_.record(stream));
  for (const Range& r : on_host_) {
    std::copy(host + r.begin, host + r.end, all.data() + r.begin);
  }
  return all;
}

}  // namespace sluice
