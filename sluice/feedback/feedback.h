#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/backend/backend.h"
#include "sluice/backend/sparse_block.h"
#include "sluice/core/bucket.h"
#include "sluice/core/registry.h"
#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// The residuals (and momenta) of all tensors, in device memory.
class Arena {
 public:
  Arena(Backend& backend, std::size_t elements);

  std::size_t size() const { return elements_; }
  std::size_t memory_bytes() const {
    return residual_.bytes() + momentum_.bytes();
  }
  float* residual() const { return residual_.data<float>(); }
  bool has_momentum() const { return momentum_.bytes() > 0; }
  // Allocated on first use: only some feedbacks keep a momentum.
  float* momentum(Backend& backend);

 private:
  std::size_t elements_;
  Buffer residual_;
  Buffer momentum_;
};

// What is the same for all buckets in one step.
struct StepInfo {
  std::uint64_t step = 0;         // counts from 0
  std::uint64_t total_steps = 0;  // 0: unknown
  double density = 0.01;
  std::uint64_t seed = 0;  // equal on all ranks
  // Ranks whose gradients have been added up to what is selected from.
  std::size_t together = 1;
};

// What a step's selection came to, summed over the bucket's segments.
struct StepReport {
  std::uint64_t budget = 0;
  std::uint64_t selected = 0;
  std::uint64_t nonfinite = 0;
  std::uint64_t failed_brackets = 0;
  std::uint64_t exact_searches = 0;
  double lost = 0;  // sum of |x| that nothing keeps
};

enum class NonFinite : std::uint8_t { kSkip, kStop };

// What to say where a step has so many of them.
std::string describe_nonfinite(std::uint64_t count, std::uint64_t step);

// What a worker keeps of a gradient for later, around any sparsifier.
//
// A step is a transaction. select() accumulates the gradient, takes the chosen
// entries out of the memory and stages them; commit() lets them go, rollback()
// puts them back, after which the memory holds what it held before plus the
// gradient. A step that is sent again re-sends staged(); it never accumulates
// twice. One instance serves one bucket and knows nothing of ranks.
class Feedback {
 public:
  static constexpr std::string_view kKind = "feedback";

  struct Setup {
    Backend& backend;
    Arena& arena;
    const Bucket& bucket;
    std::shared_ptr<const Sparsifier> sparsifier;
    // kFp32, kBf16 or kFp16; what rounding takes off stays in the residual. A
    // sparsifier that has a form of its own keeps it.
    ValueForm values = ValueForm::kFp32;
  };

  explicit Feedback(const Setup& setup);
  virtual ~Feedback() = default;
  Feedback(const Feedback&) = delete;
  Feedback& operator=(const Feedback&) = delete;

  virtual std::string_view name() const = 0;

  // Stages a step. `gradients` has one view per segment of the bucket, in
  // device memory. Throws std::logic_error if a step is still staged, and
  // std::invalid_argument if a view does not fit its segment.
  const SparseBlock& select(Stream& stream,
                            std::span<const TensorView> gradients,
                            const StepInfo& step);
  const SparseBlock& staged() const { return block_; }
  SparseBlock& staged() { return block_; }

  // Adds what `returned` has, in device memory, to the residual: the collective
  // has not delivered it. The first `refused` lists are staged entries of which
  // nothing was delivered.
  void commit(Stream& stream, std::span<const SparseView> returned = {},
              std::size_t refused = 0);
  void rollback(Stream& stream);

  // Enqueues the copy of the reports; report() may be called once it is done.
  Event fetch_report(Stream& stream);
  StepReport report() const;

  // What the rules have learned, as bytes of this build; for checkpoints.
  // load() throws std::invalid_argument if they are of another bucket.
  std::vector<std::byte> save(Stream& stream) const;
  std::size_t state_bytes() const { return states_.bytes(); }
  void load(Stream& stream, std::span<const std::byte> bytes);

  const Bucket& bucket() const { return bucket_; }
  const Sparsifier& sparsifier() const { return *sparsifier_; }
  // Entries that the staged step asked for; see StepReport.
  std::uint64_t budget() const { return budget_; }
  // How the staged entries may travel.
  std::span<const SegmentForm> forms() const { return forms_; }
  // Where the residual is, by segment; null where none is kept.
  std::span<const MemoryRange> residuals() const { return residuals_; }

 protected:
  struct Weights {
    float beta = 1;
    float gamma = 1;
  };

  // Makes the tasks' gradient and memory pointers ready for the select pass.
  virtual Weights prepare(Stream& stream, std::span<SegmentTask> tasks,
                          const StepInfo& step) = 0;
  // `refused` has not been sent after all.
  virtual void on_commit(Stream&, std::span<const SparseView> /*refused*/) {}

  Backend& backend_;
  Arena& arena_;
  Bucket bucket_;

 private:
  void set_gradients(Stream& stream, std::span<const TensorView> gradients);
  void set_forms();

  std::shared_ptr<const Sparsifier> sparsifier_;
  ValueForm values_;
  std::vector<SegmentTask> tasks_;
  Buffer states_;
  Buffer reports_;
  Buffer packed_;  // for gradients that are not contiguous fp32
  Buffer host_reports_;
  std::vector<SegmentForm> forms_;
  std::vector<MemoryRange> residuals_;
  Event reported_;
  bool fetched_ = false;
  SparseBlock block_;
  std::uint64_t budget_ = 0;
  bool staged_ = false;
};

using FeedbackEntry = RegistryEntry<Feedback, const Feedback::Setup&>;

// Every feedback there is.
std::span<const FeedbackEntry> feedbacks();

// What a feedback wants done with the mean of a tensor of which everything was
// sent; nothing where the factor is 0.
struct MomentumSettings {
  double factor = 0;
  bool nesterov = false;
  double clip = 0;
};
MomentumSettings dense_momentum(std::string_view feedback);

// From "name", "name:key=value,..." or a JSON object; see parse_spec.
std::unique_ptr<Feedback> make_feedback(std::string_view text,
                                        const Feedback::Setup& setup);

}  // namespace sluice
