#include "sluice/torch/data/loader.h"

#include <ATen/Parallel.h>

#include <numeric>

#include "sluice/core/error.h"
#include "sluice/core/hash.h"

namespace sluice {
namespace {

// One batch; `render(index, out)` writes an image.
template <class Render>
Batch make_batch(const Dataset& dataset, std::span<const std::uint64_t> indices,
                 const Render& render) {
  const Input& input = dataset.input();
  const auto count = static_cast<std::int64_t>(indices.size());
  const auto pixels = static_cast<std::size_t>(input.pixels());
  Batch batch;
  batch.images =
      torch::empty({count, input.channels, input.height, input.width});
  batch.labels = torch::empty({count}, torch::kInt64);
  auto* images = batch.images.data_ptr<float>();
  auto* labels = batch.labels.data_ptr<std::int64_t>();
  // Images are independent of each other, so threads cannot change them.
  at::parallel_for(0, count, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      labels[i] = dataset.label(indices[at]);
      render(indices[at], std::span(images + at * pixels, pixels));
    }
  });
  return batch;
}

}  // namespace

Loader::Loader(const Dataset& dataset, const SamplerOptions& options)
    : dataset_(dataset),
      seed_(options.seed),
      sampler_(dataset.size(), options) {}

Batch Loader::next() {
  // Another stream of numbers than that of the shuffle.
  constexpr std::uint64_t kAugment = 0x6175676d656e74ULL;
  const std::uint64_t key = mix64(seed_, kAugment, position().epoch);
  const std::vector<std::uint64_t> indices = sampler_.next();
  return make_batch(dataset_, indices,
                    [&](std::uint64_t index, std::span<float> out) {
                      dataset_.render_augmented(index, mix64(key, index), out);
                    });
}

Batch evaluation_batch(const Dataset& dataset, const Share& samples) {
  require(samples.begin <= samples.end && samples.end <= dataset.size(),
          "[evaluation_batch] samples must lie in [0, ", dataset.size(),
          "], got [", samples.begin, ", ", samples.end, ")");
  std::vector<std::uint64_t> indices(samples.end - samples.begin);
  std::iota(indices.begin(), indices.end(), samples.begin);
  return make_batch(dataset, indices,
                    [&](std::uint64_t index, std::span<float> out) {
                      dataset.render_plain(index, out);
                    });
}

}  // namespace sluice
