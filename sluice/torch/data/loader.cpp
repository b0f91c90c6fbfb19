#include "sluice/torch/data/loader.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>

#include "sluice/core/error.h"
#include "sluice/core/hash.h"

namespace sluice {
namespace {

// With torch's threads. Images are independent of each other, so threads
// cannot change them.
BatchOutcome make_here(const Dataset& dataset, const Order& order) {
  const auto count = static_cast<std::int64_t>(order.indices.size());
  std::vector<std::string> problems(order.indices.size());
  at::parallel_for(0, count, 8, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin);
         i < static_cast<std::size_t>(end); ++i) {
      problems[i] = make_sample(dataset, order, i).problem;
    }
  });
  BatchOutcome outcome;
  for (std::string& problem : problems) {
    if (problem.empty()) continue;
    if (outcome.replaced++ == 0) outcome.problem = std::move(problem);
  }
  return outcome;
}

bool is_free(const torch::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

}  // namespace

std::size_t data_threads(bool slow, std::size_t asked, std::size_t workers,
                         bool cores_are_idle) {
  if (asked > 0) return asked;
  if (!slow && !cores_are_idle) return 0;
  // More than the cores only take time from each other; eight feed a model of
  // some thousand images per second.
  constexpr std::size_t kMost = 8;
  const std::size_t cores = std::thread::hardware_concurrency();
  return std::clamp<std::size_t>(cores / std::max<std::size_t>(workers, 1), 1,
                                 kMost);
}

BatchQueue::BatchQueue(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(dataset),
      ahead_(options.threads > 0 ? options.prefetch : 0),
      pinned_(options.pinned) {
  if (options.threads > 0) {
    maker_ = std::make_unique<SampleMaker>(dataset, options.threads);
  }
}

// Fresh memory of the size of a batch comes from the system page by page, which
// took a seventh of the time of decoding photographs.
Batch BatchQueue::make_room(std::int64_t count) {
  const auto found = std::find_if(
      handed_out_.begin(), handed_out_.end(), [&](const Batch& batch) {
        return batch.tensors[1].size(0) == count &&
               std::all_of(batch.tensors.begin(), batch.tensors.end(), is_free);
      });
  if (found != handed_out_.end()) {
    Batch batch = std::move(*found);
    handed_out_.erase(found);
    return batch;
  }
  const ImageInput& input = dataset_.input();
  Batch batch;
  const auto memory = torch::TensorOptions().pinned_memory(pinned_);
  batch.tensors = {
      torch::empty({count, input.channels, input.height, input.width}, memory),
      torch::empty({count}, memory.dtype(torch::kInt64))};
  return batch;
}

void BatchQueue::push(std::vector<std::uint64_t> indices,
                      std::optional<std::uint64_t> key) {
  Waiting& next = waiting_.emplace_back();
  next.batch = make_room(static_cast<std::int64_t>(indices.size()));
  Order order = {std::move(indices), key,
                 next.batch.tensors[0].data_ptr<float>(),
                 next.batch.tensors[1].data_ptr<std::int64_t>()};
  if (maker_) {
    maker_->push(std::move(order));
  } else {
    next.order = std::move(order);
  }
}

Batch BatchQueue::pop() {
  Waiting oldest = std::move(waiting_.front());
  waiting_.pop_front();
  oldest.batch.outcome =
      maker_ ? maker_->pop() : make_here(dataset_, oldest.order);
  // Two: the one in use, and one that its user has not let go of yet.
  constexpr std::size_t kMost = 2;
  handed_out_.push_back(oldest.batch);
  if (handed_out_.size() > kMost) handed_out_.pop_front();
  return std::move(oldest.batch);
}

void BatchQueue::clear() {
  if (maker_) maker_->forget();
  waiting_.clear();
}

Loader::Loader(const Dataset& dataset, const SamplerOptions& options,
               const LoaderOptions& how)
    : seed_(options.seed),
      sampler_(dataset.size(), options),
      position_(sampler_.position()),
      queue_(dataset, how) {}

void Loader::seek(const Position& position) {
  sampler_.seek(position);
  position_ = sampler_.position();
  queue_.clear();
  after_.clear();
}

Batch Loader::next() {
  // Another stream of numbers than that of the shuffle.
  constexpr std::uint64_t kAugment = 0x6175676d656e74ULL;
  while (!queue_.full()) {
    const std::uint64_t epoch = sampler_.position().epoch;
    queue_.push(sampler_.next(), mix64(seed_, kAugment, epoch));
    after_.push_back(sampler_.position());
  }
  try {
    Batch batch = queue_.pop();
    position_ = after_.front();
    after_.pop_front();
    return batch;
  } catch (...) {
    seek(position_);
    throw;
  }
}

EvaluationLoader::EvaluationLoader(const Dataset& dataset,
                                   const Partition& samples,
                                   std::uint64_t batch,
                                   const LoaderOptions& how)
    : rest_(samples), batch_(batch), queue_(dataset, how) {
  require(samples.begin <= samples.end && samples.end <= dataset.size(),
          "[evaluation] samples must lie in [0, ", dataset.size(), "], got [",
          samples.begin, ", ", samples.end, ")");
  require(batch > 0, "[evaluation] batch must be at least 1, got 0");
}

std::optional<Batch> EvaluationLoader::next() {
  while (!queue_.full() && rest_.begin < rest_.end) {
    std::vector<std::uint64_t> indices(
        std::min(batch_, rest_.end - rest_.begin));
    std::iota(indices.begin(), indices.end(), rest_.begin);
    rest_.begin += indices.size();
    queue_.push(std::move(indices), std::nullopt);
  }
  if (queue_.empty()) return std::nullopt;
  return queue_.pop();
}

}  // namespace sluice
