#include "sluice/comm/machines.h"

#include <algorithm>
#include <cstring>

#include "sluice/core/error.h"
#include "sluice/core/hash.h"

namespace sluice {

std::vector<std::size_t> gather_machines(Communicator& comm) {
  comm.begin("machines", Communicator::kBetweenSteps);
  const std::uint64_t mine = comm.machine();
  std::vector<std::size_t> all(comm.size(), mine);
  for (std::size_t r = 0; r < comm.size(); ++r) {
    if (r != comm.rank()) comm.send(r, 0, std::as_bytes(std::span(&mine, 1)));
  }
  for (std::size_t r = 0; r < comm.size(); ++r) {
    if (r == comm.rank()) continue;
    const auto bytes = comm.receive(r, 0);
    if (bytes.size() != sizeof(mine)) comm.reject(r, "no machine");
    std::uint64_t theirs = 0;
    std::memcpy(&theirs, bytes.data(), sizeof(theirs));
    all[r] = theirs;
  }
  return all;
}

std::vector<std::size_t> machines_of(std::size_t ranks,
                                     std::size_t per_machine) {
  require(per_machine > 0, "[machines] a machine must have a rank at least");
  std::vector<std::size_t> all(ranks);
  for (std::size_t r = 0; r < ranks; ++r) all[r] = r / per_machine;
  return all;
}

Machines::Machines(std::span<const std::size_t> machine_of, std::size_t rank,
                   std::size_t ranks)
    : rank_(rank), ranks_(ranks) {
  require(machine_of.size() == ranks && rank < ranks,
          "[machines] must know the machine of each of ", ranks,
          " ranks, knows those of ", machine_of.size());
  for (std::size_t r = 0; r < ranks; ++r) {
    if (machine_of[r] == machine_of[rank]) mine_.push_back(r);
    const auto first = std::ranges::find(machine_of, machine_of[r]);
    const auto leader = static_cast<std::size_t>(first - machine_of.begin());
    if (leader == r) leaders_.push_back(r);
    digest_ = mix64(digest_, r, leader);
  }
}

}  // namespace sluice
