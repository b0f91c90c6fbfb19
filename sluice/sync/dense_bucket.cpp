#include "sluice/core/error.h"
#include "sluice/sync/bucket_sync.h"

namespace sluice {
namespace {

// All of the gradient, every step. Sums are made beside it, so that it is what
// it was until the step is committed. What bf16 rounds off waits in the
// residual. Where the feedback has momentum, so has the mean: u = m u + mean.
class DenseBucket final : public BucketSync {
 public:
  explicit DenseBucket(const Setup& setup)
      : BucketSync(setup),
        dense_(collective_->as_dense()),
        momentum_(dense_momentum(setup.plan.feedback)) {
    require(dense_ != nullptr,
            "[plan] a dense bucket must travel by dense or dense-bf16, got '",
            setup.plan.collective, "'");
    for (const Segment& segment : bucket_.segments()) {
      const std::size_t n = segment.shape.size();
      float* residual = arena_.residual() + segment.memory;
      residuals_.push_back({residual, segment.base, n});
      residual_views_.push_back(flat_view({residual, n}));
    }
  }

  bool is_sparse() const override { return false; }

  StepReport report() const override {
    StepReport report;
    report.nonfinite = host_bad_sums();
    return report;
  }

  void inherit_residual() override { owed_ = true; }
  std::size_t memory_bytes() const override {
    return packed_.bytes() + sums_.bytes() + host_.bytes() +
           remainders_.bytes() + rounded_off_.bytes() + velocity_.bytes();
  }

 private:
  bool adds_residual() const { return owed_ || dense_->rounds(); }

  // One tensor is read where it is.
  bool reads_in_place() const {
    return gradients_.size() == 1 && is_plain(gradients_[0]) &&
           !adds_residual() && backend_.is_host();
  }

  void enqueue_select(Stream& stream, const StepInfo&) override {
    if (reads_in_place()) return;
    backend_.pack(stream,
                  {gradients_,
                   adds_residual() ? std::span<const MemoryRange>(residuals_)
                                   : std::span<const MemoryRange>(),
                   floats(packed_)});
  }

  void run_exchange(Communicator& comm, ExchangeContext& context,
                    std::uint64_t step) override {
    const std::size_t n = bucket_.size();
    ranks_ = comm.size();
    mean_ = reads_in_place() ? static_cast<float*>(gradients_[0].data)
                             : floats(packed_);
    by_link_ = context.link() != nullptr && dense_->takes_link() && ranks_ > 1;
    if (by_link_) {
      sum_on_device(comm, context, step);
      return;
    }
    std::span<float> remainders;
    if (dense_->rounds()) remainders = {host_floats(remainders_), n};
    if (backend_.is_host()) {
      const std::span<const float> in(mean_, n);
      // What is packed already is a copy.
      if (reads_in_place() && ranks_ > 1) mean_ = floats(sums_);
      dense_->sum(comm, step, in, {mean_, n}, remainders);
    } else {
      const std::span<float> values(host_floats(host_), n);
      backend_.copy_out(context.stream(), std::as_writable_bytes(values),
                        mean_);
      context.wait();
      dense_->sum(comm, step, values, values, remainders);
      backend_.copy_in(context.stream(), mean_, std::as_bytes(values));
    }
    count_bad(context);
  }

  void sum_on_device(Communicator& comm, ExchangeContext& context,
                     std::uint64_t step) {
    const std::size_t n = bucket_.size();
    const std::span<const float> in(mean_, n);
    if (reads_in_place()) {
      context.reserve(sums_, n * sizeof(float));
      mean_ = sums_.data<float>();
    }
    std::span<float> remainders;
    if (dense_->rounds()) {
      context.reserve(rounded_off_, n * sizeof(float));
      remainders = {rounded_off_.data<float>(), n};
    }
    dense_->sum_on_device(comm, context, step, in, {mean_, n}, remainders);
    count_bad(context);
  }

  void count_bad(ExchangeContext& context) {
    backend_.count_nonfinite(context.stream(), mean_, bucket_.size(),
                             bad_sums());
    fetch_bad_sums(context);
  }

  void on_commit(ExchangeContext& context) override {
    Stream& stream = context.stream();
    float share = 1.0F / static_cast<float>(ranks_);
    if (momentum_.factor > 0) {
      mean_ = accumulate(stream, share);
      share = 1;
    }
    if (mean_ != gradients_[0].data || share != 1) {
      backend_.apply(stream, {{}, mean_, gradients_, share});
    }
    if (dense_->rounds()) {
      const float* rest = by_link_
                              ? rounded_off_.data<float>()
                              : context.on_device(std::span<const float>(
                                    remainders_.data<float>(), bucket_.size()));
      backend_.apply(stream, {{}, rest, residual_views_, 1});
    } else if (owed_) {
      for (const MemoryRange& r : residuals_) {
        backend_.fill(stream, r.data, r.size, 0);
      }
      owed_ = false;
    }
  }

  // The velocity that the momenta make of the mean.
  float* accumulate(Stream& stream, float share) {
    const std::size_t n = bucket_.size();
    const auto& segments = bucket_.segments();
    const TensorView mean = flat_view({mean_, n});
    if (share != 1) backend_.apply(stream, {{}, mean_, {&mean, 1}, share});
    float* velocity = floats(velocity_);
    backend_.fill(stream, velocity, n, 0);
    if (nonfinite_.bytes() == 0) {
      nonfinite_ = backend_.allocate(segments.size() * sizeof(std::uint64_t));
    }
    tasks_.clear();
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const Segment& segment = segments[s];
      tasks_.push_back({mean_ + segment.base,
                        arena_.momentum(backend_) + segment.memory,
                        velocity + segment.base, segment.shape.size(),
                        nonfinite_.data<std::uint64_t>() + s});
    }
    backend_.momentum(stream, {tasks_, static_cast<float>(momentum_.factor),
                               momentum_.nesterov, momentum_.clip});
    return velocity;
  }

  float* floats(Buffer& buffer, bool of_host = false) {
    const std::size_t bytes = bucket_.size() * sizeof(float);
    if (buffer.bytes() < bytes) {
      buffer =
          of_host ? backend_.allocate_host(bytes) : backend_.allocate(bytes);
    }
    return buffer.data<float>();
  }
  float* host_floats(Buffer& buffer) { return floats(buffer, true); }

  DenseAllreduce* dense_;
  MomentumSettings momentum_;
  std::vector<MemoryRange> residuals_;
  std::vector<TensorView> residual_views_;
  bool owed_ = false;  // the residual may hold something
  float* mean_ =
      nullptr;  // of the device: the sum, or the gradient of one rank
  std::size_t ranks_ = 1;
  Buffer packed_;
  Buffer sums_;
  Buffer host_;
  Buffer remainders_;   // of the host
  Buffer rounded_off_;  // the same, of the device
  bool by_link_ = false;
  std::vector<MomentumTask> tasks_;
  Buffer velocity_;
  Buffer nonfinite_;  // counts that nobody asks for: the sums are finite
};

}  // namespace

std::unique_ptr<BucketSync> make_dense_bucket(const BucketSync::Setup& setup) {
  return std::make_unique<DenseBucket>(setup);
}

}  // namespace sluice
