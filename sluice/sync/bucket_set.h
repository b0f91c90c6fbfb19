#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/sync/bucket_sync.h"
#include "sluice/sync/gradient_sync.h"
#include "sluice/sync/host_side.h"

namespace sluice {

// The buckets of a plan over the tensors of a model, with the arenas that they
// share: all that is kept from step to step, and from plan to plan. Knows
// nothing of ranks and threads.
//
// The residual of a tensor is in the arena of the device, or of the host for as
// long as a plan selects it there; it moves when a plan says otherwise.
class BucketSet {
 public:
  // Without a plan it has no buckets. `treatments`: per tensor, or none.
  // `host`: see SyncOptions.
  BucketSet(Backend& backend, std::vector<TensorInfo> tensors,
            std::vector<Treatment> treatments, Backend* host = nullptr);

  // What buckets have learned that are as they were.
  enum class Keep { kWhatStays, kNothing };
  // See GradientSync::replan. Throws before anything has changed. `machines`:
  // those of a hierarchical plan, else null.
  void take(const Plan& plan, const Machines* machines, Keep keep);
  const Machines* machines() const { return machines_; }

  std::size_t size() const { return buckets_.size(); }
  BucketSync& operator[](std::size_t b) { return *buckets_[b]; }
  // See BucketSync::inherit_residual.
  void inherit_residuals();
  // The buckets that have the pieces of a tensor; one, if it is whole.
  std::span<const std::size_t> of(std::size_t tensor) const {
    return buckets_of_[tensor];
  }

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<std::string>& names() const { return names_; }
  // Of the host, where a bucket is selected there; null otherwise.
  ExchangeContext* host_context() {
    return host_ == nullptr ? nullptr : &host_->context;
  }
  // Bytes of the arenas and of buffers that steps use.
  std::size_t memory_bytes() const;

  // See GradientSync::State. What is loaded is there once the stream has come
  // so far.
  GradientSync::State save(Stream& stream);
  void load(Stream& stream, const GradientSync::State& state);

  // See GradientSync; done once the stream has come so far. bring_back() throws
  // std::logic_error if nothing is set aside.
  void set_aside(Stream& stream);
  void bring_back(Stream& stream);

 private:
  // What a bucket has learned, for a bucket of the same plan.
  struct Learned {
    BucketPlan plan;
    std::vector<std::byte> rule;
    std::vector<double> collective;
  };
  // All that is kept, as it once was.
  struct Aside {
    Aside(Backend& backend, std::size_t elements) : arena(backend, elements) {}

    Arena arena;
    bool has_momentum = false;
    std::uint64_t machines = 0;  // see digest_of_machines()
    std::vector<Learned> learned;
  };

  // Elements of the arena, from first to behind the last.
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  using Ranges = std::vector<Range>;  // ascending

  static Ranges minus(const Ranges& all, const Ranges& others);

  // The plan, without a device where that is the host anyway.
  BucketPlan placed(BucketPlan plan) const;
  std::unique_ptr<BucketSync>* find(const BucketPlan& plan);
  std::unique_ptr<BucketSync> make(const BucketPlan& plan,
                                   const Machines* machines, HostSide* host);
  // What of the arena belongs to buckets that the host selects.
  Ranges host_ranges() const;
  // Residuals and momenta, to where `now` says.
  void move_memories(const Ranges& now, HostSide& host);
  void copy(Stream& stream, const Ranges& ranges, float* device, float* host,
            bool to_host);
  std::vector<float> fetch(Stream& stream, float* device, float* host);
  // 0: of no machines.
  std::uint64_t digest_of_machines() const;
  bool has_momentum() const;
  // Between the memory that is set aside and the arenas.
  void copy_aside(Stream& stream, float* aside, float* device, float* host,
                  bool back);
  void bring_back_learned(Stream& stream);

  Backend& backend_;
  std::vector<TensorInfo> tensors_;
  std::vector<Treatment> treatments_;
  std::vector<std::string> names_;   // of the tensors
  std::vector<std::size_t> memory_;  // where each tensor starts in the arena
  std::unique_ptr<Arena> arena_;
  Backend* given_host_;
  std::unique_ptr<HostSide> host_;  // while some bucket is selected there
  Ranges on_host_;                  // of the arena
  const Machines* machines_ = nullptr;
  std::vector<std::unique_ptr<BucketSync>> buckets_;
  std::vector<std::vector<std::size_t>> buckets_of_;  // by tensor
  std::unique_ptr<Aside> aside_;                      // once asked for
};

}  // namespace sluice
