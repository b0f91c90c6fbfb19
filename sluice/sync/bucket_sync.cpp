#include "sluice/sync/bucket_sync.h"

#include <algorithm>
#include <array>

#include "sluice/core/ensure.h"

namespace sluice {

BucketSync::BucketSync(const Setup& setup) : BucketSync(setup, Outer()) {
  collective_ = make_collective(setup.plan.collective);
}

BucketSync::BucketSync(const Setup& setup, Outer)
    : backend_(setup.backend),
      arena_(setup.arena),
      plan_(setup.plan),
      bad_(setup.backend.allocate(sizeof(std::uint64_t))),
      host_bad_(setup.backend.allocate_host(sizeof(std::uint64_t))) {
  for (const std::size_t t : plan_.tensors) add_segment(setup, t);
  gradients_.resize(plan_.tensors.size());
  scratch_.resize(plan_.tensors.size());
  ready_.resize(plan_.tensors.size());
  BucketSync::reset();
}

void BucketSync::add_segment(const Setup& setup, std::size_t tensor) {
  std::vector<std::size_t> dims = setup.tensors[tensor].dims;
  Part part{shape3(dims).size(), dims.empty() ? 1 : dims[0], 0, 0};
  part.begin = plan_.piece.begin(part.rows);
  part.end = plan_.piece.end(part.rows);
  const std::size_t row = part.rows == 0 ? 0 : part.elements / part.rows;
  if (!plan_.piece.whole()) {
    dims.resize(std::max<std::size_t>(1, dims.size()));
    dims[0] = part.end - part.begin;
  }
  const bool keeps =
      setup.treatments.empty() || setup.treatments[tensor].keeps_residual;
  // Pieces draw numbers of their own.
  const std::uint64_t id = tensor + (std::uint64_t{plan_.piece.index} << 32);
  bucket_.add(id, shape3(dims), setup.memory[tensor] + part.begin * row, keeps);
  parts_.push_back(part);
}

void BucketSync::reset() {
  there_.assign(plan_.tensors.size(), false);
  missing_ = plan_.tensors.size();
}

bool BucketSync::has(std::size_t tensor) const {
  const auto at = std::find(plan_.tensors.begin(), plan_.tensors.end(), tensor);
  return there_[static_cast<std::size_t>(at - plan_.tensors.begin())];
}

bool BucketSync::add(std::size_t tensor, const TensorView& gradient,
                     const Event& ready, const MemoryOwner& scratch) {
  const auto at = std::find(plan_.tensors.begin(), plan_.tensors.end(), tensor);
  const auto s = static_cast<std::size_t>(at - plan_.tensors.begin());
  expect(!there_[s], "[sync] tensor ", tensor,
         " was announced twice in one step");
  const std::size_t n = parts_[s].elements;
  require(gradient.size() == n && (gradient.data != nullptr || n == 0),
          "[sync] the gradient of tensor ", tensor, " must have ", n,
          " elements, got ", gradient.data != nullptr ? gradient.size() : 0);
  gradients_[s] = part_of(s, gradient);
  scratch_[s] = scratch;
  there_[s] = true;
  ready_[s] = ready;
  return --missing_ == 0;
}

void BucketSync::take(std::span<const TensorView> gradients) {
  std::copy(gradients.begin(), gradients.end(), gradients_.begin());
  std::fill(ready_.begin(), ready_.end(), Event());
  std::fill(scratch_.begin(), scratch_.end(), MemoryOwner());
  there_.assign(there_.size(), true);
  missing_ = 0;
}

TensorView BucketSync::part_of(std::size_t segment,
                               const TensorView& gradient) const {
  if (plan_.piece.whole()) return gradient;
  const Part& part = parts_[segment];
  const bool by_rows = gradient.rank > 0 && gradient.dims[0] == part.rows;
  if (by_rows) return slice_rows(gradient, part.begin, part.end);
  require(gradient.contiguous(), "[sync] the gradient of tensor ",
          plan_.tensors[segment], ", which travels in pieces, must have ",
          part.rows, " rows or be contiguous, got ",
          gradient.rank > 0 ? gradient.dims[0] : 1, " rows with strides");
  const std::size_t row = part.rows == 0 ? 0 : part.elements / part.rows;
  const std::array<std::size_t, 1> flat = {part.elements};
  return slice_rows(contiguous_view(gradient.data, flat, gradient.dtype),
                    part.begin * row, part.end * row);
}

void BucketSync::select(Stream& stream, const StepInfo& step) {
  for (const Event& ready : ready_) backend_.wait(stream, ready);
  enqueue_select(stream, step);
  selected_ = backend_.record(stream);
  staged_ = true;
}

void BucketSync::exchange(Communicator& comm, ExchangeContext& context,
                          std::uint64_t step) {
  backend_.wait(context.stream(), selected_);
  run_exchange(comm, context, step);
}

void BucketSync::commit(ExchangeContext& context, std::uint64_t selected) {
  if (!staged_) return;  // an error came in the middle of a commit
  on_commit(context, selected);
  staged_ = false;
}

void BucketSync::roll_back(ExchangeContext& context) {
  if (!staged_) return;
  backend_.wait(context.stream(), selected_);
  on_roll_back(context);
  staged_ = false;
}

void BucketSync::fetch_bad_sums(ExchangeContext& context) {
  backend_.copy_out(context.stream(),
                    {host_bad_.data<std::byte>(), host_bad_.bytes()},
                    bad_.data());
}

std::unique_ptr<BucketSync> make_bucket_sync(const BucketSync::Setup& setup) {
  if (setup.plan.dense()) return make_dense_bucket(setup);
  return setup.machines != nullptr ? make_machine_bucket(setup)
                                   : make_sparse_bucket(setup);
}

}  // namespace sluice
