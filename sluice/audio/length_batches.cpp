#include "sluice/audio/length_batches.h"

#include <algorithm>
#include <numeric>

#include "sluice/core/hash.h"

namespace sluice {
namespace {

// A shuffle of [0, n) by a key.
std::vector<std::uint64_t> shuffled(std::uint64_t n, std::uint64_t key) {
  std::vector<std::uint64_t> order(n);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  for (std::uint64_t i = n; i-- > 1;) {
    std::swap(order[i], order[bounded(mix64(key, i), i + 1)]);
  }
  return order;
}

}  // namespace

LengthBatches::LengthBatches(std::span<const std::uint64_t> lengths,
                             const SamplerOptions& options)
    : options_(options),
      // Whose checks and whose number of steps are the same.
      steps_(Sampler(lengths.size(), options).steps_per_epoch()),
      sorted_(lengths.size()) {
  std::iota(sorted_.begin(), sorted_.end(), std::uint64_t{0});
  std::stable_sort(sorted_.begin(), sorted_.end(),
                   [&](auto a, auto b) { return lengths[a] < lengths[b]; });
  begin_epoch();
}

void LengthBatches::seek(const Position& position) {
  Sampler sampler(sorted_.size(), options_);
  sampler.seek(position);
  position_ = sampler.position();
  begin_epoch();
}

std::vector<std::uint64_t> LengthBatches::next() {
  const std::uint64_t together = options_.ranks * options_.batch;
  const std::uint64_t begin = turn_[position_.step] * together;
  std::vector<std::uint64_t> chosen(options_.batch);
  for (std::uint64_t i = 0; i < options_.batch; ++i) {
    chosen[i] = order_[begin + i * options_.ranks + options_.rank];
  }
  if (++position_.step == steps_) {
    position_ = {position_.epoch + 1, 0};
    begin_epoch();
  }
  return chosen;
}

void LengthBatches::begin_epoch() {
  const std::uint64_t samples = sorted_.size();
  const std::uint64_t wanted = steps_ * options_.ranks * options_.batch;
  order_ = sorted_;
  if (wanted < samples) {
    const auto key = mix64(options_.seed, position_.epoch, 1);
    auto left_out = shuffled(samples, key);
    left_out.resize(samples - wanted);
    // Places from behind, so that those before them stay where they are.
    std::sort(left_out.rbegin(), left_out.rend());
    for (const std::uint64_t at : left_out) {
      order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  for (std::uint64_t i = samples; i < wanted; ++i) {
    order_.push_back(sorted_[samples - 1 - (i - samples) % samples]);
  }
  turn_ = shuffled(steps_, mix64(options_.seed, position_.epoch, 2));
  if (position_.epoch == 0) std::sort(turn_.begin(), turn_.end());
}

}  // namespace sluice
