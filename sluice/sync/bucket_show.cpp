#include <algorithm>
#include <vector>

#include "sluice/sync/bucket_sync.h"

namespace sluice {
namespace {

// A copy on the host, once the stream has come so far.
template <class T>
std::vector<T> fetch(Backend& backend, Stream& stream, const T* device,
                     std::size_t count) {
  std::vector<T> out(count);
  backend.copy_out(stream, std::as_writable_bytes(std::span(out)), device);
  backend.wait(backend.record(stream));
  return out;
}

}  // namespace

// Copies of a bucket on the host.
struct BucketSync::Shown {
  std::vector<float> gradients;        // if they are wanted
  std::vector<float> inputs;           // the same
  std::vector<std::uint32_t> indices;  // by segment, counted from its first
  std::vector<float> values;
};

void BucketSync::show(const StepInfo& step, SelectionObserver& observer) {
  const Look look = observer.look(step.step);
  if (look == Look::kNothing) return;
  backend_.wait(selected_);
  const auto stream = backend_.make_stream();
  Shown shown;
  if (look == Look::kEverything) {
    const Buffer packed = backend_.allocate(bucket_.size() * sizeof(float));
    backend_.pack(*stream, {gradients_, {}, packed.data<float>()});
    shown.gradients =
        fetch(backend_, *stream, packed.data<float>(), bucket_.size());
    shown.inputs = shown.gradients;
  }
  Feedback* feedback = this->shown();
  if (feedback != nullptr) fetch_selection(*stream, *feedback, shown);
  for (std::size_t s = 0; s < bucket_.segments().size(); ++s) {
    observer.selected(step.step, part_of(s, step, feedback, shown));
  }
}

void BucketSync::fetch_selection(Stream& stream, Feedback& feedback,
                                 Shown& shown) const {
  SparseBlock& block = feedback.staged();
  backend_.wait(block.fetch(backend_, stream));
  shown.indices = fetch(backend_, stream, block.indices(), block.count());
  shown.values = fetch(backend_, stream, block.values(), block.count());
  for (std::size_t s = 0; s < bucket_.segments().size(); ++s) {
    const Segment& segment = bucket_.segments()[s];
    const std::size_t begin = block.start(s);
    const std::size_t count = block.start(s + 1) - begin;
    const auto indices = std::span(shown.indices).subspan(begin, count);
    for (std::uint32_t& i : indices) {
      i -= static_cast<std::uint32_t>(segment.base);
    }
    const float* memory = feedback.residuals()[s].data;
    if (shown.inputs.empty() || memory == nullptr) continue;
    // What stayed in the residual, and what was taken out.
    const auto stayed = fetch(backend_, stream, memory, segment.shape.size());
    const auto input = std::span(shown.inputs).subspan(segment.base);
    std::copy(stayed.begin(), stayed.end(), input.begin());
    for (std::size_t i = 0; i < count; ++i) {
      input[indices[i]] += shown.values[begin + i];
    }
  }
}

SelectedPart BucketSync::part_of(std::size_t s, const StepInfo& step,
                                 const Feedback* feedback,
                                 const Shown& shown) const {
  const Part& part = parts_[s];
  const Segment& segment = bucket_.segments()[s];
  SelectedPart out;
  out.tensor = plan_.tensors[s];
  out.first = part.rows == 0 ? 0 : part.begin * (part.elements / part.rows);
  out.size = out.budget = segment.shape.size();
  const std::size_t turn = step.step % (plan_.turns.size() + 1);
  out.rule = turn == 0 ? plan_.sparsifier : plan_.turns[turn - 1];
  if (!shown.gradients.empty()) {
    out.gradient = std::span(shown.gradients).subspan(segment.base, out.size);
    out.input = std::span(shown.inputs).subspan(segment.base, out.size);
  }
  if (feedback == nullptr) return out;
  const std::size_t begin = feedback->staged().start(s);
  const std::size_t count = feedback->staged().start(s + 1) - begin;
  out.density = step.density;
  out.budget = feedback->sparsifier().budget(out.size, step.density);
  out.indices = std::span(shown.indices).subspan(begin, count);
  out.values = std::span(shown.values).subspan(begin, count);
  return out;
}

}  // namespace sluice
