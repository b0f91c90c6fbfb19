#include "sluice/sync/bucket_sync.h"

#include <algorithm>

#include "sluice/core/ensure.h"

namespace sluice {

BucketSync::BucketSync(const Setup& setup)
    : backend_(setup.backend),
      arena_(setup.arena),
      collective_(make_collective(setup.plan.collective)),
      plan_(setup.plan),
      bad_(setup.backend.allocate(sizeof(std::uint64_t))),
      host_bad_(setup.backend.allocate_host(sizeof(std::uint64_t))) {
  for (const std::size_t t : plan_.tensors) {
    const bool keeps =
        setup.treatments.empty() || setup.treatments[t].keeps_residual;
    bucket_.add(t, shape3(setup.tensors[t].dims), setup.memory[t], keeps);
  }
  gradients_.resize(plan_.tensors.size());
  ready_.resize(plan_.tensors.size());
  reset();
}

void BucketSync::reset() {
  there_.assign(plan_.tensors.size(), false);
  missing_ = plan_.tensors.size();
}

bool BucketSync::add(std::size_t tensor, const TensorView& gradient,
                     const Event& ready) {
  const auto at = std::find(plan_.tensors.begin(), plan_.tensors.end(), tensor);
  const auto s = static_cast<std::size_t>(at - plan_.tensors.begin());
  expect(!there_[s], "[sync] tensor ", tensor,
         " was announced twice in one step");
  const std::size_t n = bucket_.segments()[s].shape.size();
  require(gradient.size() == n && (gradient.data != nullptr || n == 0),
          "[sync] the gradient of tensor ", tensor, " must have ", n,
          " elements, got ", gradient.data != nullptr ? gradient.size() : 0);
  there_[s] = true;
  gradients_[s] = gradient;
  ready_[s] = ready;
  return --missing_ == 0;
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
  on_commit(context);
  collective_->commit(selected);
  staged_ = false;
}

void BucketSync::roll_back(ExchangeContext& context) {
  if (!staged_) return;
  backend_.wait(context.stream(), selected_);
  on_roll_back(context);
  collective_->roll_back();
  staged_ = false;
}

void BucketSync::fetch_bad_sums(ExchangeContext& context) {
  backend_.copy_out(context.stream(),
                    {host_bad_.data<std::byte>(), host_bad_.bytes()},
                    bad_.data());
}

std::unique_ptr<BucketSync> make_bucket_sync(const BucketSync::Setup& setup) {
  return setup.plan.sparsifier == "none" ? make_dense_bucket(setup)
                                         : make_sparse_bucket(setup);
}

}  // namespace sluice
