#include <algorithm>
#include <cstring>

#include "sluice/collective/machine_sum.h"
#include "sluice/collective/patterns.h"
#include "sluice/core/ensure.h"
#include "sluice/sync/bucket_sync.h"

namespace sluice {
namespace {

// A sparse bucket of whole machines: their ranks add up their gradients, the
// first selects from the sum with its own residual and exchanges with those of
// other machines, and hands the mean to the rest.
//
// Until the step is committed every rank can go back by itself, whatever
// reached the others: gradients are not touched, the leader keeps a copy of its
// memories, and a roll-back leaves each gradient in the residual of its own
// rank. The next step adds the memories of a machine up first.
class MachineBucket final : public BucketSync {
 public:
  explicit MachineBucket(const Setup& setup)
      : BucketSync(setup, Outer()),
        machines_(*setup.machines),
        inner_(make_sparse_bucket(for_one(setup))) {
    memories_.push_back(memory_at(arena_.residual(), kResidual));
    if (dense_momentum(setup.plan.feedback).factor > 0) {
      memories_.push_back(memory_at(arena_.momentum(backend_), kMomentum));
    }
  }

  bool is_sparse() const override { return true; }

  StepReport report() const override {
    return machines_.leads() ? inner_->report() : StepReport();
  }
  Network* unknown_network() override {
    return machines_.leads() ? inner_->unknown_network() : nullptr;
  }
  // What is selected from is a machine's, and there only once it is exchanged.
  void show(const StepInfo&, SelectionObserver&) override {}
  // Leaders have done so before they gave anything on.
  bool verify(Communicator&) override { return true; }

  std::vector<std::byte> save_rule(Stream& stream) const override {
    return inner_->save_rule(stream);
  }
  void load_rule(Stream& stream, std::span<const std::byte> bytes) override {
    inner_->load_rule(stream, bytes);
  }
  std::vector<double> save_collective() const override {
    return inner_->save_collective();
  }
  void load_collective(std::span<const double> values) override {
    inner_->load_collective(values);
  }
  void inherit_residual() override { owed_ = true; }
  std::size_t memory_bytes() const override {
    std::size_t bytes = inner_->memory_bytes() + packed_.bytes() +
                        sum_.bytes() + host_.bytes() + mean_.memory_bytes();
    for (const Memory& m : memories_) bytes += m.kept.bytes();
    return bytes;
  }

 private:
  // Of messages between ranks of a machine.
  enum Phase : std::uint32_t {
    kResidual = 0,
    kMomentum = 1U << 28,
    kGradient = 2U << 28,
    kMean = 3U << 28,
  };
  // What the mean travels as, in front of it.
  enum Form : std::uint64_t { kList, kDense };

  // What the arena keeps of the bucket from step to step: residual, momentum.
  struct Memory {
    std::vector<TensorView> views;  // per segment
    Phase phase;
    Buffer kept;  // as it was before the step
  };
  Memory memory_at(float* start, Phase phase) const {
    Memory memory{{}, phase, {}};
    for (const Segment& s : bucket_.segments()) {
      memory.views.push_back(flat_view({start + s.memory, s.shape.size()}));
    }
    return memory;
  }

  static Setup for_one(const Setup& setup) {
    Setup one = setup;
    one.machines = nullptr;
    return one;
  }

  // One tensor is read where it is.
  bool reads_in_place() const {
    return gradients_.size() == 1 && is_plain(gradients_[0]) &&
           backend_.is_host();
  }
  const float* own_gradient() {
    return reads_in_place() ? static_cast<const float*>(gradients_[0].data)
                            : packed_.data<float>();
  }

  void enqueue_select(Stream& stream, const StepInfo& step) override {
    step_ = step;
    if (reads_in_place()) return;
    backend_.pack(stream, {gradients_, {}, floats(packed_)});
  }

  void run_exchange(Communicator& comm, ExchangeContext& context,
                    std::uint64_t step) override {
    const std::size_t ranks = comm.size();
    if (machines_.leads() && !machines_.alone()) keep(context.stream());
    {
      const Communicator::Group machine(comm, machines_.mine());
      comm.begin("machine", step);
      if (owed_) add_up_memories(comm, context);
      sum(comm, context, own_gradient(), kGradient);
    }
    if (machines_.leads()) exchange_as_one(comm, context, step, ranks);
    const Communicator::Group machine(comm, machines_.mine());
    comm.begin("machine", step);
    hand_out(comm, context);
  }

  void keep(Stream& stream) {
    for (Memory& m : memories_) {
      backend_.pack(stream, {m.views, {}, floats(m.kept)});
    }
    kept_ = true;
  }

  // The leader's memories become those of the machine. The others let go of
  // theirs when the step is committed.
  void add_up_memories(Communicator& comm, ExchangeContext& context) {
    for (const Memory& m : memories_) {
      backend_.pack(context.stream(), {m.views, {}, floats(sum_)});
      sum(comm, context, sum_.data<float>(), m.phase);
      if (!machines_.leads()) continue;
      backend_.apply(context.stream(), {{}, sum_.data<float>(), m.views, 1});
    }
  }

  // The sum over the machine of n values of the device, in the leader's sum_.
  void sum(Communicator& comm, ExchangeContext& context, const float* values,
           Phase phase) {
    const std::size_t n = bucket_.size();
    if (backend_.is_host()) {
      sum_at_first(comm, {values, n}, {floats(sum_), n}, phase);
      return;
    }
    const std::span<float> host = fetch(context, values);
    sum_at_first(comm, host, host, phase);
    if (!machines_.leads()) return;
    backend_.copy_in(context.stream(), floats(sum_), std::as_bytes(host));
  }

  void exchange_as_one(Communicator& comm, ExchangeContext& context,
                       std::uint64_t step, std::size_t ranks) {
    views_.clear();
    for (const Segment& s : bucket_.segments()) {
      views_.push_back(
          flat_view({sum_.data<float>() + s.base, s.shape.size()}));
    }
    StepInfo info = step_;
    info.together = machines_.mine().size();
    inner_->take(views_);
    inner_->select(context.stream(), info);
    const Communicator::Group leaders(comm, machines_.leaders());
    const ExchangeContext::Unlinked unlinked(context);
    inner_->exchange(comm, context, step);
    // The sum becomes the mean.
    inner_->apply(context, ranks);
    context.wait();
    expect(inner_->verify(comm), "[sync] what goes by messages must fit");
  }

  // The mean in host memory, on all ranks of the machine: those entries of it
  // that are not zero, or all if most of them are not.
  void hand_out(Communicator& comm, ExchangeContext& context) {
    Frame frame;
    if (machines_.leads()) frame = packed_mean(comm, context);
    frame_ = broadcast(comm, 0, kMean, std::move(frame));
    const auto bytes = frame_.payload();
    const std::size_t n = bucket_.size();
    std::uint64_t form = kList;
    if (bytes.size() >= sizeof(form)) {
      std::memcpy(&form, bytes.data(), sizeof(form));
    }
    pieces_.clear();
    if (form == kDense && bytes.size() == sizeof(form) + n * sizeof(float)) {
      pieces_.dense = {
          reinterpret_cast<const float*>(bytes.data() + sizeof(form)), n};
      return;
    }
    if (form != kList || bytes.size() < sizeof(form)) {
      comm.reject(0, "no mean of this bucket");
    }
    if (!machines_.leads()) {
      context.coder().decode(comm, 0, bytes.subspan(sizeof(form)), n, mean_);
    }
    pieces_.lists.push_back(mean_.view());
  }

  Frame packed_mean(Communicator& comm, ExchangeContext& context) {
    const std::size_t n = bucket_.size();
    const std::span<const float> mean =
        backend_.is_host() ? std::span<const float>(sum_.data<float>(), n)
                           : fetch(context, sum_.data<float>());
    const auto zeros =
        static_cast<std::size_t>(std::count(mean.begin(), mean.end(), 0.0F));
    const std::uint64_t form = 2 * zeros > n ? kList : kDense;
    Frame frame;
    if (form == kList) {
      mean_.reset(n - zeros);
      std::size_t at = 0;
      for (std::size_t j = 0; j < n; ++j) {
        if (mean[j] == 0) continue;
        mean_.indices()[at] = static_cast<std::uint32_t>(j);
        mean_.values()[at++] = mean[j];
      }
      frame = context.coder().encode(comm, mean_, n, sizeof(form));
    } else {
      frame = comm.make_frame(sizeof(form) + n * sizeof(float));
      std::copy(
          mean.begin(), mean.end(),
          reinterpret_cast<float*>(frame.payload().data() + sizeof(form)));
    }
    std::memcpy(frame.payload().data(), &form, sizeof(form));
    return frame;
  }

  void on_commit(ExchangeContext& context, std::uint64_t selected) override {
    // By all ranks alike, from the same pieces: so they get the same bits.
    context.apply(pieces_, gradients_, 1);
    if (machines_.leads()) {
      inner_->commit(context, selected);
    } else if (owed_) {
      for (const Memory& m : memories_) clear(context.stream(), m);
    }
    owed_ = false;
    kept_ = false;
  }

  void on_roll_back(ExchangeContext& context) override {
    const bool done = inner_->staged() && machines_.alone();
    inner_->roll_back(context);  // if it has selected
    if (done) return;
    Stream& stream = context.stream();
    for (const Memory& m : memories_) {
      if (!kept_) break;
      backend_.apply(stream, {{}, m.kept.data<float>(), m.views, 1});
    }
    // As of a step of this rank alone that failed.
    inner_->take(gradients_);
    inner_->select(stream, step_);
    inner_->roll_back(context);
    owed_ = true;
    kept_ = false;
  }

  void clear(Stream& stream, const Memory& memory) {
    for (const TensorView& v : memory.views) {
      backend_.fill(stream, static_cast<float*>(v.data), v.size(), 0);
    }
  }

  // Values of the device, for the host to read.
  std::span<float> fetch(ExchangeContext& context, const float* values) {
    const std::size_t n = bucket_.size();
    if (host_.bytes() < n * sizeof(float)) {
      host_ = backend_.allocate_host(n * sizeof(float));
    }
    const std::span<float> host(host_.data<float>(), n);
    backend_.copy_out(context.stream(), std::as_writable_bytes(host), values);
    context.wait();
    return host;
  }

  float* floats(Buffer& buffer) {
    const std::size_t bytes = bucket_.size() * sizeof(float);
    if (buffer.bytes() < bytes) buffer = backend_.allocate(bytes);
    return buffer.data<float>();
  }

  const Machines& machines_;
  std::unique_ptr<BucketSync> inner_;
  std::vector<Memory> memories_;
  // Other ranks than leaders may have memories. Alike on all ranks of a machine
  // whenever a step begins.
  bool owed_ = false;
  bool kept_ = false;
  StepInfo step_;
  Buffer packed_;                  // this rank's gradients
  Buffer sum_;                     // the machine's, then the mean
  Buffer host_;                    // of the host, for devices
  std::vector<TensorView> views_;  // of the sum, per segment
  HostList mean_;
  Frame frame_;    // with the mean
  Pieces pieces_;  // of either
};

}  // namespace

std::unique_ptr<BucketSync> make_machine_bucket(
    const BucketSync::Setup& setup) {
  return std::make_unique<MachineBucket>(setup);
}

}  // namespace sluice
