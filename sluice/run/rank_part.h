#pragma once

#include <string>

#include "sluice/run/manifest.h"
#include "sluice/sync/gradient_sync.h"

namespace sluice {

// Numbers that a model carries from batch to batch.
struct CarriedTensor {
  std::vector<std::int64_t> dims;
  std::vector<float> values;
};

// What a checkpoint holds of one rank: the residual and all that is kept from
// step to step beside the weights.
struct RankState : GradientSync::State {
  std::vector<CarriedTensor> carried;
};

std::string rank_part_path(const std::string& folder, std::size_t rank);

// Returns the digest of the file. Throws std::runtime_error if the disk does
// not take it.
std::uint64_t write_rank_part(const std::string& path, const RankState& state,
                              const Origin& origin);

// Throws std::runtime_error if it is not there, not whole, or not that of this
// rank in the checkpoint of the manifest.
RankState read_rank_part(const std::string& path, const Manifest& manifest,
                         std::size_t rank);

// A part of what an old rank kept, for a new one.
struct Inherited {
  std::size_t rank = 0;  // the old one
  double factor = 1;
};

// What new rank `rank` of `ranks` takes over from `old_ranks` ranks, so that
// the mean over the ranks, the update still owed to the weights, stays the
// same: (1 / P) * sum of r = (1 / P') * sum of r'. Nobody else's is split if
// ranks leave; nobody else's is added if ranks join.
std::vector<Inherited> inherit(std::size_t old_ranks, std::size_t rank,
                               std::size_t ranks);

// What rank `rank` of `ranks` goes on from after a run of `old_ranks` ranks:
// its own part, or, of other numbers of ranks, the residual that inherit()
// gives it and the mean of its ancestors' momenta, with rules, collectives and
// what is carried anew. A momentum that was the same on all ranks stays the
// same to the bit.
RankState read_rank_parts(const std::string& folder, const Manifest& manifest,
                          std::size_t old_ranks, std::size_t rank,
                          std::size_t ranks);

}  // namespace sluice
