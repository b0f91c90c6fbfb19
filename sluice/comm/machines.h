#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/comm/communicator.h"

namespace sluice {

// Per rank, its machine: by what the engine knows. A call of its own, of all
// ranks between two steps. Throws CommError.
std::vector<std::size_t> gather_machines(Communicator& comm);

// The same if every so many ranks in a row share one, whatever the engine says.
std::vector<std::size_t> machines_of(std::size_t ranks,
                                     std::size_t per_machine);

// Which ranks share a machine, as one of them sees it. Ranks of a machine need
// not follow one another. Its first rank leads a machine. Data.
class Machines {
 public:
  // `machine_of`: per rank, a number that the ranks of one machine share.
  // Throws std::invalid_argument unless it has `ranks` of them.
  Machines(std::span<const std::size_t> machine_of, std::size_t rank,
           std::size_t ranks);

  // Whether any machine has several ranks.
  bool shared() const { return leaders_.size() < ranks_; }
  // Ranks of this machine, and the first of every machine, ascending.
  std::span<const std::size_t> mine() const { return mine_; }
  std::span<const std::size_t> leaders() const { return leaders_; }
  bool leads() const { return mine_.front() == rank_; }
  bool alone() const { return mine_.size() == 1; }
  // Differs between layouts, and is the same on all ranks of one.
  std::uint64_t digest() const { return digest_; }

 private:
  std::size_t rank_;
  std::size_t ranks_;
  std::vector<std::size_t> mine_;
  std::vector<std::size_t> leaders_;
  std::uint64_t digest_ = 0;
};

}  // namespace sluice
