#include <algorithm>
#include <bit>

#include "sluice/collective/machine_sum.h"
#include "sluice/collective/patterns.h"
#include "sluice/core/error.h"
#include "sluice/core/hash.h"
#include "sluice/sync/bucket_sync.h"

namespace sluice {
namespace {

// All of the gradient, every step. Sums are made beside it, so that it is what
// it was until the step is committed, unless nobody needs that. What bf16
// rounds off waits in the residual. Where the feedback has momentum, so has the
// mean: u = m u + mean.
class DenseBucket final : public BucketSync {
 public:
  explicit DenseBucket(const Setup& setup)
      : BucketSync(setup),
        dense_(collective_->as_dense()),
        machines_(setup.machines),
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

  // Of a step that failed before it was selected there may be a sum left.
  void reset() override {
    BucketSync::reset();
    summing_.reset();
  }

  StepReport report() const override {
    StepReport report;
    report.nonfinite = host_bad_sums();
    return report;
  }

  void inherit_residual() override { owed_ = true; }
  std::size_t memory_bytes() const override {
    return packed_->bytes() + sums_.bytes() + host_.bytes() +
           remainders_.bytes() + rounded_off_.bytes() + velocity_.bytes() +
           momenta_.bytes() + left_.bytes();
  }

 private:
  bool adds_residual() const { return owed_ || dense_->rounds(); }

  // One tensor is read where it is, unless it can be summed where it is packed.
  bool reads_in_place() const {
    return gradients_.size() == 1 && is_plain(gradients_[0]) &&
           !adds_residual() && backend_.is_host() && !dense_->by_engine();
  }

  // The memory of all gradients, where it is scratch, they lie there in the
  // order of the bucket and without gaps, and the engine sums in place; else
  // nothing. So it does not matter if other ranks pack theirs.
  std::span<float> find_scratch() const {
    if (!backend_.is_host() || !dense_->by_engine() || adds_residual() ||
        momentum_.factor > 0 || machines_ != nullptr) {
      return {};
    }
    float* first = nullptr;
    std::size_t there = 0;
    for (std::size_t s = 0; s < gradients_.size(); ++s) {
      const TensorView& g = gradients_[s];
      if (g.size() == 0) continue;
      auto* begin = static_cast<float*>(g.data);
      if (first == nullptr) first = begin;
      const bool mine = scratch_[s] != nullptr && scratch_[s] == scratch_[0];
      if (!mine || !is_plain(g) || begin != first + there) return {};
      there += g.size();
    }
    return {first, there};
  }

  // The mean over one rank is the gradient.
  bool stays() const {
    return ranks_ == 1 && backend_.is_host() && !adds_residual() &&
           momentum_.factor == 0 && std::ranges::all_of(gradients_, is_plain);
  }

  // Sums of several buckets may be under way at once.
  bool start(Communicator& comm) override {
    summed_ = find_scratch();
    if (summed_.empty()) return false;
    summing_ = dense_->start_sum(comm, summed_, scratch_[0]);
    return summing_ != nullptr;
  }

  void enqueue_select(Stream& stream, const StepInfo&) override {
    if (summing_ != nullptr) return;
    stays_ = stays();
    summed_ = stays_ ? std::span<float>() : find_scratch();
    if (stays_ || !summed_.empty() || reads_in_place()) return;
    backend_.pack(stream,
                  {gradients_,
                   adds_residual() ? std::span<const MemoryRange>(residuals_)
                                   : std::span<const MemoryRange>(),
                   floats(*packed_)});
  }

  void run_exchange(Communicator& comm, ExchangeContext& context,
                    std::uint64_t step) override {
    const std::size_t n = bucket_.size();
    ranks_ = comm.size();
    if (stays_) {
      count_bad_in_place(context);
      return;
    }
    if (!summed_.empty()) {
      sum_in_place(comm, step);
      return;
    }
    if (owed_ && momentum_.factor > 0) even_momenta(comm, context, step);
    mean_ = reads_in_place() ? static_cast<float*>(gradients_[0].data)
                             : floats(*packed_);
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
      const bool beside = reads_in_place() && ranks_ > 1;
      if (beside) mean_ = floats(sums_);
      sum(*dense_, comm, step, in, {mean_, n}, remainders,
          beside ? MemoryOwner() : packed_);
    } else {
      const std::span<float> values(host_floats(host_), n);
      backend_.copy_out(context.stream(), std::as_writable_bytes(values),
                        mean_);
      context.wait();
      sum(*dense_, comm, step, values, values, remainders);
      backend_.copy_in(context.stream(), mean_, std::as_bytes(values));
    }
    count_bad(context);
  }

  void sum_in_place(Communicator& comm, std::uint64_t step) {
    // Before anything is started: after an error others may have another plan.
    comm.begin(dense_->name(), step);
    if (summing_ == nullptr && !start(comm)) {
      dense_->sum(comm, step, summed_, summed_, {}, scratch_[0]);
    }
  }

  void finish_exchange(Communicator& comm, ExchangeContext& context,
                       std::uint64_t step) override {
    if (summed_.empty()) return;
    if (summing_ != nullptr) {
      comm.begin(dense_->name(), step);
      comm.finish_native_sum(*summing_, summed_.size());
      summing_.reset();
    }
    // To the mean already: what is scratch needs no vote.
    const TensorView all = flat_view(summed_);
    backend_.apply(context.stream(), {{},
                                      summed_.data(),
                                      {&all, 1},
                                      1.0F / static_cast<float>(ranks_),
                                      bad_sums()});
    fetch_bad_sums(context);
  }

  // Of machines: each one's ranks add first, and their leaders sum. Only
  // leaders round anything off then.
  void sum(DenseAllreduce& by, Communicator& comm, std::uint64_t step,
           std::span<const float> in, std::span<float> out,
           std::span<float> remainders, const MemoryOwner& owner = {}) {
    if (machines_ == nullptr) {
      by.sum(comm, step, in, out, remainders, owner);
      return;
    }
    {
      const Communicator::Group machine(comm, machines_->mine());
      comm.begin("machine", step);
      sum_at_first(comm, in, out, 0);
    }
    if (machines_->leads()) {
      const Communicator::Group leaders(comm, machines_->leaders());
      by.sum(comm, step, out, out, remainders);
    } else {
      std::fill(remainders.begin(), remainders.end(), 0.0F);
    }
    const Communicator::Group machine(comm, machines_->mine());
    comm.begin("machine", step);
    copy_from_first(comm, out, kCopy);
  }

  // Where gradients were sparse before, momenta differ from rank to rank, and
  // what is made of them must not: all go on with the mean. What is left in the
  // residuals has been through the momentum already. Momenta that are alike, as
  // in a run that goes on, stay as they are in every bit.
  void even_momenta(Communicator& comm, ExchangeContext& context,
                    std::uint64_t step) {
    const std::span<float> momenta = fetch(
        context, momenta_,
        [&](const Segment& s) { return arena_.momentum(backend_) + s.memory; });
    std::uint64_t digest = 0;
    for (const float v : momenta) {
      digest = mix64(digest, std::bit_cast<std::uint32_t>(v));
    }
    uneven_ =
        rank_that_differs(comm, "momentum", step,
                          std::as_bytes(std::span(&digest, 1))) != comm.rank();
    if (!uneven_) return;
    const std::span<float> left = fetch(context, left_, [&](const Segment& s) {
      return arena_.residual() + s.memory;
    });
    const auto exact = make_collective("dense:by=ring");
    for (const std::span<float> values : {momenta, left}) {
      sum(*exact->as_dense(), comm, step, values, values, {});
      for (float& v : values) v /= static_cast<float>(ranks_);
    }
    for (float& v : left) v = -v;
  }

  // What the arena has of the bucket, in host memory.
  template <class Of>
  std::span<float> fetch(ExchangeContext& context, Buffer& buffer, Of&& of) {
    const std::span<float> values(host_floats(buffer), bucket_.size());
    for (const Segment& s : bucket_.segments()) {
      backend_.copy_out(
          context.stream(),
          std::as_writable_bytes(values.subspan(s.base, s.shape.size())),
          of(s));
    }
    context.wait();
    return values;
  }

  void put_momenta(Stream& stream) {
    const std::span<const float> values(momenta_.data<float>(), bucket_.size());
    for (const Segment& s : bucket_.segments()) {
      backend_.copy_in(stream, arena_.momentum(backend_) + s.memory,
                       std::as_bytes(values.subspan(s.base, s.shape.size())));
    }
  }

  // Behind the step whose mean had it: what was left is delivered once, and
  // not kept as momentum.
  void take_out_what_was_left(ExchangeContext& context) {
    const std::span<const float> left(left_.data<float>(), bucket_.size());
    std::vector<MemoryRange> ranges;
    std::vector<TensorView> momenta;
    auto* on_device = const_cast<float*>(context.on_device(left));
    for (const Segment& s : bucket_.segments()) {
      const std::size_t n = s.shape.size();
      ranges.push_back({on_device + s.base, s.base, n});
      momenta.push_back(flat_view({arena_.momentum(backend_) + s.memory, n}));
    }
    float* out = floats(*packed_);
    backend_.pack(context.stream(), {momenta, ranges, out});
    backend_.apply(context.stream(), {{}, out, momenta, 1});
    uneven_ = false;
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

  void count_bad_in_place(ExchangeContext& context) {
    std::uint64_t total = 0;
    for (const TensorView& g : gradients_) {
      backend_.count_nonfinite(context.stream(), static_cast<float*>(g.data),
                               g.size(), bad_sums());
      total += *bad_sums();
    }
    *bad_sums() = total;
    fetch_bad_sums(context);
  }

  void on_roll_back(ExchangeContext&) override {
    collective_->roll_back();
    summing_.reset();
    // A sum that came too late may write there still.
    if (backend_.is_host()) packed_ = std::make_shared<Buffer>();
  }

  void on_commit(ExchangeContext& context, std::uint64_t selected) override {
    collective_->commit(selected);
    if (stays_ || !summed_.empty()) return;
    Stream& stream = context.stream();
    float share = 1.0F / static_cast<float>(ranks_);
    if (uneven_) put_momenta(stream);
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
    }
    if (uneven_) take_out_what_was_left(context);
    owed_ = false;
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

  static constexpr std::uint32_t kCopy = 1U << 28;

  DenseAllreduce* dense_;
  const Machines* machines_;
  MomentumSettings momentum_;
  std::vector<MemoryRange> residuals_;
  std::vector<TensorView> residual_views_;
  bool owed_ = false;    // the residual may hold something
  bool uneven_ = false;  // momenta were, and are to be the mean
  float* mean_ =
      nullptr;  // of the device: the sum, or the gradient of one rank
  std::size_t ranks_ = 0;    // once known
  bool stays_ = false;       // the gradient of one rank
  std::span<float> summed_;  // the gradients, where they are scratch
  std::unique_ptr<Engine::Sum> summing_;  // them, if it is under way
  // Shared with an engine that may write there when nobody waits any more.
  std::shared_ptr<Buffer> packed_ = std::make_shared<Buffer>();
  Buffer sums_;
  Buffer host_;
  Buffer remainders_;   // of the host
  Buffer rounded_off_;  // the same, of the device
  bool by_link_ = false;
  std::vector<MomentumTask> tasks_;
  Buffer velocity_;
  Buffer momenta_;    // of the host, as is what follows
  Buffer left_;       // what residuals had, negated
  Buffer nonfinite_;  // counts that nobody asks for: the sums are finite
};

}  // namespace

std::unique_ptr<BucketSync> make_dense_bucket(const BucketSync::Setup& setup) {
  return std::make_unique<DenseBucket>(setup);
}

}  // namespace sluice
