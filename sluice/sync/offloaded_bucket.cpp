#include "sluice/core/error.h"
#include "sluice/sync/bucket_sync.h"
#include "sluice/sync/host_side.h"

namespace sluice {
namespace {

// A sparse bucket of the host around which gradients come and go.
class OffloadedBucket final : public BucketSync {
 public:
  OffloadedBucket(const Setup& setup, HostSide& host)
      : BucketSync(setup, Outer()),
        host_(host),
        inner_(make_sparse_bucket({.backend = host.backend,
                                   .arena = host.arena,
                                   .plan = setup.plan,
                                   .tensors = setup.tensors,
                                   .memory = setup.memory,
                                   .treatments = setup.treatments})),
        packed_(backend_.allocate(bucket_.size() * sizeof(float))),
        values_(backend_.allocate_host(bucket_.size() * sizeof(float))) {
    for (const Segment& segment : bucket_.segments()) {
      views_.push_back(flat_view(
          {values_.data<float>() + segment.base, segment.shape.size()}));
    }
  }

  bool is_sparse() const override { return true; }
  bool applies_early() const override { return true; }

  Network* unknown_network() override { return inner_->unknown_network(); }

  void apply(ExchangeContext& context, std::size_t ranks) override {
    inner_->apply(host_.context, ranks);
    Stream& stream = *host_.uploads;
    backend_.copy_in(stream, packed_.data(), bytes());
    backend_.apply(stream, {{}, packed_.data<float>(), gradients_, 1});
    backend_.wait(context.stream(), backend_.record(stream));
  }

  void show(const StepInfo& step, SelectionObserver& observer) override {
    inner_->show(step, observer);
  }
  bool verify(Communicator& comm) override { return inner_->verify(comm); }
  StepReport report() const override { return inner_->report(); }
  std::vector<std::byte> save_rule(Stream&) const override {
    return inner_->save_rule(host_.context.stream());
  }
  void load_rule(Stream&, std::span<const std::byte> bytes) override {
    inner_->load_rule(host_.context.stream(), bytes);
  }
  std::vector<double> save_collective() const override {
    return inner_->save_collective();
  }
  void load_collective(std::span<const double> values) override {
    inner_->load_collective(values);
  }
  void inherit_residual() override { inner_->inherit_residual(); }
  std::size_t memory_bytes() const override {
    return inner_->memory_bytes() + packed_.bytes() + values_.bytes();
  }

 private:
  std::span<std::byte> bytes() {
    return {values_.data<std::byte>(), bucket_.size() * sizeof(float)};
  }

  // Waits for the device, which is at nothing here but this rank's own
  // gradients: no other rank can keep it.
  void enqueue_select(Stream& stream, const StepInfo& step) override {
    backend_.pack(stream, {gradients_, {}, packed_.data<float>()});
    backend_.copy_out(stream, bytes(), packed_.data());
    backend_.wait(backend_.record(stream));
    inner_->take(views_);
    inner_->select(*host_.selecting, step);
  }

  void run_exchange(Communicator& comm, ExchangeContext&,
                    std::uint64_t step) override {
    inner_->exchange(comm, host_.context, step);
  }

  void on_commit(ExchangeContext&, std::uint64_t selected) override {
    inner_->commit(host_.context, selected);
  }
  void on_roll_back(ExchangeContext&) override {
    inner_->roll_back(host_.context);
  }

  HostSide& host_;
  std::unique_ptr<BucketSync> inner_;
  Buffer packed_;  // the gradients, later their mean, on the device
  Buffer values_;  // the same on the host
  std::vector<TensorView> views_;  // of these, per segment
};

}  // namespace

HostSide::HostSide(Backend& device, Backend* given, std::size_t elements)
    : own(given == nullptr ? make_cpu_backend({1, ""}) : nullptr),
      backend(given == nullptr ? *own : *given),
      arena(backend, elements),
      selecting(backend.make_stream()),
      context(backend),
      uploads(device.make_stream()) {
  require(backend.is_host(),
          "[sync] buckets with device cpu need a backend of the host's, got '",
          backend.name(), "'; SyncOptions::host may be left out");
}

std::unique_ptr<BucketSync> make_offloaded_bucket(
    const BucketSync::Setup& setup, HostSide& host) {
  return std::make_unique<OffloadedBucket>(setup, host);
}

}  // namespace sluice
