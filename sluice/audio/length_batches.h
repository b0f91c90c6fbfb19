#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/data/sampler.h"

namespace sluice {

// Which clips a rank trains with, clips of about one length together, so that
// little of a batch is padding. The contract is Sampler's; what differs is the
// order.
//
// Clips are sorted by (length, index) and cut into steps of ranks * batch. The
// first epoch goes from short to long (SortaGrad, of DeepSpeech 2: long clips
// are hard for a model that has learned nothing); later ones take the steps in
// an order by (seed, epoch). Of the clips of a step, sorted, a rank takes every
// ranks-th, beginning with its own number: so all have about equally long ones.
//
// drop_last = true leaves the clips of a part of a step out, others in each
// epoch: by (seed, epoch), not always the longest. false fills the last step
// with the longest again.
class LengthBatches {
 public:
  // Throws as Sampler does.
  LengthBatches(std::span<const std::uint64_t> lengths,
                const SamplerOptions& options);

  std::uint64_t steps_per_epoch() const { return steps_; }
  const Position& position() const { return position_; }
  void seek(const Position& position);
  std::vector<std::uint64_t> next();

 private:
  void begin_epoch();

  SamplerOptions options_;
  std::uint64_t steps_ = 0;
  Position position_;
  std::vector<std::uint64_t> sorted_;  // all clips by length
  std::vector<std::uint64_t> order_;   // the clips of this epoch by length
  std::vector<std::uint64_t> turn_;    // its steps, as they come
};

}  // namespace sluice
