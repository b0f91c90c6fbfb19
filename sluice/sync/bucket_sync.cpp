#include "sluice/sync/bucket_sync.h"

#include <algorithm>
#include <stdexcept>

#include "sluice/core/error.h"
#include "sluice/core/key.h"

namespace sluice {
namespace {

ValueForm value_form(const std::string& name) {
  for (const ValueForm form :
       {ValueForm::kFp32, ValueForm::kBf16, ValueForm::kFp16}) {
    if (name == name_of(form)) return form;
  }
  throw std::invalid_argument(
      concat("[plan] values must be fp32, bf16 or fp16, got '", name, "'"));
}

std::uint32_t not_finite(float x) { return magnitude_key(x) >= kInfKey; }

// Both return whether all values were finite. Two of them, for a loop that must
// expect `from` to be `to` is not vectorised, and costs a P = 1 step of an mlp
// a sixth more (2 cores, benchmarks/step_overhead.cpp, 2026-11-15).
bool scale(std::span<float> values, float share) {
  std::uint32_t bad = 0;
  if (share == 1.0F) {
    for (const float x : values) bad |= not_finite(x);
    return bad == 0;
  }
  for (float& x : values) {
    bad |= not_finite(x);
    x *= share;
  }
  return bad == 0;
}

bool scale(const float* __restrict from, std::span<float> to, float share) {
  std::uint32_t bad = 0;
  float* __restrict out = to.data();
  for (std::size_t i = 0; i < to.size(); ++i) {
    bad |= not_finite(from[i]);
    out[i] = share * from[i];
  }
  return bad == 0;
}

class SparseBucket final : public BucketSync {
 public:
  explicit SparseBucket(const Setup& setup)
      : BucketSync(setup),
        feedback_(make_feedback(
            setup.plan.feedback,
            {backend_, arena_, bucket_, make_sparsifier(setup.plan.sparsifier),
             value_form(setup.plan.values)})),
        collective_(make_collective(setup.plan.collective)) {}

  bool is_sparse() const override { return true; }

  void select(Stream& stream, const StepInfo& step) override {
    std::vector<TensorView> views;
    for (std::size_t s = 0; s < gradients_.size(); ++s) {
      views.push_back(contiguous_view(gradients_[s], dims_[s]));
    }
    feedback_->select(stream, views, step);
    staged_ = true;
    feedback_->fetch_report(stream);
    SparseBlock& block = feedback_->staged();
    backend_.wait(block.fetch(backend_, stream));
    mine_.resize(block.count());
    backend_.copy_out(stream, std::as_writable_bytes(std::span(mine_.indices)),
                      block.indices());
    backend_.copy_out(stream, std::as_writable_bytes(std::span(mine_.values)),
                      block.values());
    if (collective_->needs_rest()) fetch_rest(stream);
    backend_.wait(backend_.record(stream));
    report_ = feedback_->report();
  }

  Network* unknown_network() override { return collective_->unknown_network(); }

  void exchange(Communicator& comm, std::uint64_t step) override {
    collective_->reduce(comm,
                        {mine_, bucket_.size(), report_.budget, step,
                         feedback_->values(), rest_},
                        out_);
  }

  void apply(std::size_t ranks) override {
    PieceWriter mean(out_.sum, 1.0F / static_cast<float>(ranks));
    for (std::size_t s = 0; s < gradients_.size(); ++s) {
      mean.write({gradients_[s], bucket_.segments()[s].shape.size()});
    }
  }

  StepReport report() const override { return report_; }

  void commit(Stream& stream, std::uint64_t selected) override {
    put_back(stream);
    feedback_->commit(stream);
    collective_->commit(selected);
    staged_ = false;
  }

  void roll_back(Stream& stream) override {
    if (!staged_) return;
    feedback_->rollback(stream);
    collective_->roll_back();
    staged_ = false;
  }

  std::vector<std::byte> save_rule(Stream& stream) const override {
    return feedback_->save(stream);
  }
  void load_rule(Stream& stream, std::span<const std::byte> bytes) override {
    feedback_->load(stream, bytes);
  }
  std::vector<double> save_collective() const override {
    return collective_->save();
  }
  void load_collective(std::span<const double> values) override {
    collective_->load(values);
  }

  std::size_t memory_bytes() const override {
    std::size_t entries = mine_.indices.capacity();
    for (const Entries& list : out_.sum.lists) {
      entries += list.indices.capacity();
    }
    return 8 * (entries + feedback_->staged().capacity()) +
           4 * (out_.sum.dense.capacity() + rest_.capacity());
  }

 private:
  void fetch_rest(Stream& stream) {
    rest_.resize(bucket_.size());
    for (const Segment& segment : bucket_.segments()) {
      backend_.copy_out(stream,
                        std::as_writable_bytes(std::span(rest_).subspan(
                            segment.base, segment.shape.size())),
                        arena_.residual() + segment.memory);
    }
  }

  void put_back(Stream& stream) {
    Entries back;
    for (const Entries& list : out_.returned.lists) {
      back = back.size() == 0 ? list : merged(back, list);
    }
    for (std::size_t j = 0; j < out_.returned.dense.size(); ++j) {
      back.add(static_cast<std::uint32_t>(j), out_.returned.dense[j]);
    }
    feedback_->put_back(stream, back.indices, back.values);
  }

  std::unique_ptr<Feedback> feedback_;
  std::unique_ptr<SparseAllreduce> collective_;
  Entries mine_;
  std::vector<float> rest_;
  Delivery out_;
  StepReport report_;
  bool staged_ = false;
};

// All of the gradient, every step. What bf16 rounds off waits in the residual.
class DenseBucket final : public BucketSync {
 public:
  explicit DenseBucket(const Setup& setup) : BucketSync(setup) {
    const std::string& name = setup.plan.collective;
    bf16_ = name == DenseBf16::kName;
    require(bf16_ || name.starts_with(Dense::kName),
            "[plan] a dense bucket must travel by dense or dense-bf16, got '",
            name, "'");
    if (!bf16_) {
      auto made = make_collective(name);
      dense_.reset(static_cast<Dense*>(made.release()));
    }
  }

  bool is_sparse() const override { return false; }

  void select(Stream&, const StepInfo&) override {
    // One tensor is summed where it is.
    const auto& segments = bucket_.segments();
    if (segments.size() == 1) {
      values_ = {gradients_[0], bucket_.size()};
    } else {
      packed_.resize(bucket_.size());
      values_ = packed_;
      for (std::size_t s = 0; s < segments.size(); ++s) {
        std::copy_n(
            gradients_[s], segments[s].shape.size(),
            packed_.begin() + static_cast<std::ptrdiff_t>(segments[s].base));
      }
    }
    if (!bf16_) return;
    remainders_.assign(bucket_.size(), 0.0F);
    for (const Segment& segment : segments) {
      const float* residual = arena_.residual() + segment.memory;
      for (std::size_t i = 0; i < segment.shape.size(); ++i) {
        values_[segment.base + i] += residual[i];
      }
    }
  }

  void exchange(Communicator& comm, std::uint64_t step) override {
    if (bf16_) {
      DenseBf16::sum(comm, step, values_, remainders_);
    } else {
      dense_->sum(comm, step, values_);
    }
  }

  void apply(std::size_t ranks) override {
    const float share = 1.0F / static_cast<float>(ranks);
    bool sound = true;
    const auto& segments = bucket_.segments();
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const float* from = values_.data() + segments[s].base;
      const std::span<float> to(gradients_[s], segments[s].shape.size());
      const bool in_place = from == to.data();
      sound = (in_place ? scale(to, share) : scale(from, to, share)) && sound;
    }
    report_ = {};
    report_.nonfinite = sound ? 0 : 1;
  }

  StepReport report() const override { return report_; }

  void commit(Stream&, std::uint64_t selected) override {
    if (!bf16_) {
      dense_->commit(selected);
      return;
    }
    for (const Segment& segment : bucket_.segments()) {
      std::copy_n(
          remainders_.begin() + static_cast<std::ptrdiff_t>(segment.base),
          segment.shape.size(), arena_.residual() + segment.memory);
    }
  }
  void roll_back(Stream&) override {}

  std::vector<std::byte> save_rule(Stream&) const override { return {}; }
  void load_rule(Stream&, std::span<const std::byte>) override {}
  std::vector<double> save_collective() const override {
    return bf16_ ? std::vector<double>{} : dense_->save();
  }
  void load_collective(std::span<const double> values) override {
    if (!bf16_) dense_->load(values);
  }
  std::size_t memory_bytes() const override {
    return 4 * (packed_.capacity() + remainders_.capacity());
  }

 private:
  bool bf16_ = false;
  std::unique_ptr<Dense> dense_;
  std::span<float> values_;
  std::vector<float> packed_;
  std::vector<float> remainders_;
  StepReport report_;
};

}  // namespace

BucketSync::BucketSync(const Setup& setup)
    : backend_(setup.backend),
      arena_(setup.arena),
      tensors_(setup.plan.tensors) {
  for (const std::size_t t : tensors_) {
    const TensorInfo& info = setup.tensors[t];
    const bool keeps =
        setup.treatments.empty() || setup.treatments[t].keeps_residual;
    bucket_.add(t, shape3(info.dims), setup.memory[t], keeps);
    dims_.push_back(info.dims);
  }
  reset();
}

void BucketSync::reset() {
  gradients_.assign(tensors_.size(), nullptr);
  missing_ = tensors_.size();
}

bool BucketSync::add(std::size_t tensor, float* gradient) {
  const auto at = std::find(tensors_.begin(), tensors_.end(), tensor);
  const auto place = static_cast<std::size_t>(at - tensors_.begin());
  if (gradients_[place] != nullptr) {
    throw std::logic_error(
        concat("[sync] tensor ", tensor, " was announced twice in one step"));
  }
  gradients_[place] = gradient;
  return --missing_ == 0;
}

std::unique_ptr<BucketSync> make_bucket_sync(const BucketSync::Setup& setup) {
  if (setup.plan.sparsifier == "none") {
    return std::make_unique<DenseBucket>(setup);
  }
  return std::make_unique<SparseBucket>(setup);
}

}  // namespace sluice
