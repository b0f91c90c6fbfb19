#include "sluice/data/sampler.h"

#include <numeric>
#include <utility>

#include "sluice/core/error.h"
#include "sluice/core/hash.h"

namespace sluice {
namespace {

void check_rank(std::uint64_t rank, std::uint64_t ranks) {
  require(rank < ranks, "[sample] rank must be below the number of ranks, got ",
          rank, " of ", ranks);
}

}  // namespace

Sampler::Sampler(std::uint64_t samples, const SamplerOptions& options)
    : samples_(samples), options_(options) {
  check_rank(options.rank, options.ranks);
  require(samples > 0 && options.batch > 0,
          "[sample] there must be samples and a batch of at least 1, got ",
          samples, " samples and a batch of ", options.batch);
  const std::uint64_t together = options.batch * options.ranks;
  steps_ = samples / together;
  if (!options.drop_last && samples % together != 0) ++steps_;
  require(steps_ > 0, "[sample] ", options.ranks, " ranks with a batch of ",
          options.batch, " need ", together, " samples for one step, got ",
          samples, "; use a smaller batch, or fewer ranks");
  shuffle();
}

void Sampler::seek(const Position& position) {
  require(position.step <= steps_, "[sample] step must be at most ", steps_,
          ", the steps of an epoch, got ", position.step,
          "; were batch and ranks the same?");
  const bool ended = position.step == steps_;
  position_ = ended ? Position{position.epoch + 1, 0} : position;
  shuffle();
}

std::vector<std::uint64_t> Sampler::next() {
  const std::uint64_t begin =
      (position_.step * options_.ranks + options_.rank) * options_.batch;
  std::vector<std::uint64_t> chosen(options_.batch);
  for (std::uint64_t i = 0; i < options_.batch; ++i) {
    chosen[i] = order_[(begin + i) % samples_];
  }
  if (++position_.step == steps_) {
    position_ = {position_.epoch + 1, 0};
    shuffle();
  }
  return chosen;
}

void Sampler::shuffle() {
  order_.resize(samples_);
  std::iota(order_.begin(), order_.end(), std::uint64_t{0});
  for (std::uint64_t i = samples_ - 1; i > 0; --i) {
    const std::uint64_t random = mix64(options_.seed, position_.epoch, i);
    std::swap(order_[i], order_[bounded(random, i + 1)]);
  }
}

Partition evaluation_partition(std::uint64_t samples, std::uint64_t rank,
                               std::uint64_t ranks) {
  check_rank(rank, ranks);
  // Not samples * rank / ranks, which overflows for no good reason.
  const std::uint64_t each = samples / ranks;
  const std::uint64_t rest = samples % ranks;
  const std::uint64_t begin = rank * each + (rank < rest ? rank : rest);
  return {begin, begin + each + (rank < rest ? 1 : 0)};
}

}  // namespace sluice
