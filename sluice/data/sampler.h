#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

// Where a run is: the epoch, and the steps done in it.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;

  friend bool operator==(const Position&, const Position&) = default;
};

struct SamplerOptions {
  std::uint64_t batch = 32;  // per rank
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
  std::uint64_t seed = 0;
  // What the last step does if samples run out: leave them out of this epoch,
  // or fill up with the first ones of the epoch.
  bool drop_last = true;
};

// Which samples a rank trains with.
//
// Each epoch has an order of its own, the same on all ranks: a shuffle by
// (seed, epoch). Step s takes the next ranks * batch samples of it and each
// rank a contiguous `batch` of those. So every batch is full, all ranks take
// the same number of steps, and within an epoch no sample comes twice, but for
// what drop_last = false fills up with. The samples that are left out are
// others in each epoch.
class Sampler {
 public:
  // Throws std::invalid_argument for a rank outside ranks, for nothing to
  // sample, and where drop_last would leave an epoch without a step.
  Sampler(std::uint64_t samples, const SamplerOptions& options);

  std::uint64_t steps_per_epoch() const { return steps_; }
  const Position& position() const { return position_; }

  // Goes on from there: exactly as if all before it had been drawn. A step
  // equal to steps_per_epoch is the beginning of the next epoch. Throws
  // std::invalid_argument if the epoch has no such step.
  void seek(const Position& position);

  // The samples of this step; goes on to the next.
  std::vector<std::uint64_t> next();

 private:
  void shuffle();

  std::uint64_t samples_;
  SamplerOptions options_;
  std::uint64_t steps_;
  Position position_;
  std::vector<std::uint64_t> order_;
};

// What a rank evaluates: [begin, end), over all ranks every sample once.
struct Partition {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
Partition evaluation_partition(std::uint64_t samples, std::uint64_t rank,
                               std::uint64_t ranks);

}  // namespace sluice
