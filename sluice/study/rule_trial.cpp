#include "sluice/study/rule_trial.h"

namespace sluice {
namespace {

Bucket bucket_of(std::span<const std::size_t> dims, std::uint64_t tensor) {
  Bucket bucket;
  bucket.add(tensor, shape3(dims), 0, false);
  return bucket;
}

}  // namespace

RuleTrial::RuleTrial(TrialSpace& space, const std::string& rule,
                     std::span<const std::size_t> dims, std::uint64_t tensor)
    : space_(space) {
  const Bucket bucket = bucket_of(dims, tensor);
  feedback_ = make_feedback(
      "none", {*space.backend, space.arena, bucket, make_sparsifier(rule)});
}

RuleTrial::Result RuleTrial::select(std::span<const float> values,
                                    const StepInfo& step) {
  const TensorView view = flat_view(values);
  feedback_->select(*space_.stream, {&view, 1}, step);
  space_.backend->wait(
      feedback_->staged().fetch(*space_.backend, *space_.stream));
  feedback_->commit(*space_.stream);
  return {feedback_->budget(), feedback_->staged().count()};
}

std::vector<float> RuleTrial::selection() const {
  std::vector<float> out(feedback_->bucket().size(), 0);
  const SparseBlock& block = feedback_->staged();
  for (std::size_t i = 0; i < block.count(); ++i) {
    out[block.indices()[i]] = block.values()[i];
  }
  return out;
}

}  // namespace sluice
