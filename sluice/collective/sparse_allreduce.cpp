#include "sluice/collective/sparse_allreduce.h"

#include <algorithm>

#include "sluice/core/error.h"

namespace sluice {

void SparseAllreduce::reduce(Communicator& comm, const Contribution& mine,
                             std::span<float> mean, Entries& returned) {
  require(mean.size() == mine.n, "[", name(), "] the mean must have ", mine.n,
          " elements, got ", mean.size());
  require(
      mine.selected.indices.empty() || mine.selected.indices.back() < mine.n,
      "[", name(), "] indices must be below ", mine.n);
  comm.begin(name(), mine.step);
  std::fill(mean.begin(), mean.end(), 0.0F);
  returned.clear();
  run(comm, mine, mean, returned);
  const float share = 1.0F / static_cast<float>(comm.size());
  for (float& v : mean) v *= share;
}

Decision vote(Communicator& comm, std::uint64_t step, bool success) {
  constexpr std::uint32_t kBallot = 1;
  constexpr std::uint32_t kDecision = 2;
  const auto byte = [](bool yes) { return yes ? std::byte{1} : std::byte{0}; };
  comm.begin("vote", step);
  if (comm.rank() != 0) {
    const std::byte mine[] = {byte(success)};
    comm.send(0, kBallot, mine);
    const auto decision = comm.receive(0, kDecision);
    if (decision.size() != 1) comm.reject(0, "a decision of the wrong size");
    return decision[0] == byte(true) ? Decision::kCommit : Decision::kRollBack;
  }
  bool all = success;
  for (std::size_t r = 1; r < comm.size(); ++r) {
    const auto ballot = comm.receive(r, kBallot);
    if (ballot.size() != 1) comm.reject(r, "a ballot of the wrong size");
    all = all && ballot[0] == byte(true);
  }
  const std::byte decision[] = {byte(all)};
  for (std::size_t r = 1; r < comm.size(); ++r) {
    comm.send(r, kDecision, decision);
  }
  return all ? Decision::kCommit : Decision::kRollBack;
}

}  // namespace sluice
