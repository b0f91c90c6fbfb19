#include "sluice/collective/vote.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "sluice/collective/exchange.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

// A flag and numbers, as a message.
Bytes pack(bool flag, std::span<const std::uint64_t> numbers) {
  Bytes out(1 + numbers.size_bytes(), flag ? std::byte{1} : std::byte{0});
  if (!numbers.empty()) {
    std::memcpy(out.data() + 1, numbers.data(), numbers.size_bytes());
  }
  return out;
}

bool unpack(Communicator& comm, std::size_t peer, std::span<const std::byte> in,
            std::span<std::uint64_t> numbers) {
  if (in.size() != 1 + numbers.size_bytes()) {
    comm.reject(peer, concat("a vote with ", in.size(), " bytes where ",
                             1 + numbers.size_bytes(),
                             " were due; do all ranks have the same buckets?"));
  }
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), in.data() + 1, numbers.size_bytes());
  }
  return in[0] == std::byte{1};
}

}  // namespace

VoteResult vote(Communicator& comm, std::uint64_t step, bool success,
                std::span<const std::uint64_t> counts) {
  constexpr std::uint32_t kBallot = 1;
  constexpr std::uint32_t kDecision = 2;
  comm.begin("vote", step);
  VoteResult verdict;
  verdict.totals.assign(counts.begin(), counts.end());
  bool all = success;
  if (comm.rank() != 0) {
    comm.send(0, kBallot, pack(success, counts));
    all = unpack(comm, 0, comm.receive(0, kDecision), verdict.totals);
  } else {
    std::vector<std::uint64_t> theirs(counts.size());
    for (std::size_t r = 1; r < comm.size(); ++r) {
      all = unpack(comm, r, comm.receive(r, kBallot), theirs) && all;
      for (std::size_t i = 0; i < theirs.size(); ++i) {
        verdict.totals[i] += theirs[i];
      }
    }
    send_to_others(comm, kDecision, pack(all, verdict.totals));
  }
  verdict.decision = all ? Decision::kCommit : Decision::kRollBack;
  return verdict;
}

VoteResult settle(Communicator& comm, const Standing& mine) {
  // Under a step of its own: ranks come here from different ones.
  comm.begin("settle", ~std::uint64_t{0});
  std::vector<std::uint64_t> numbers = {mine.next_step};
  numbers.insert(numbers.end(), mine.totals.begin(), mine.totals.end());
  send_to_others(comm, 0, pack(mine.in_doubt, numbers));
  std::uint64_t first = mine.next_step;
  std::uint64_t last = mine.next_step;
  VoteResult result;
  result.totals = mine.totals;
  for_others(comm, [&](std::size_t peer) {
    std::vector<std::uint64_t> theirs(numbers.size());
    unpack(comm, peer, comm.receive(peer, 0), theirs);
    first = std::min(first, theirs[0]);
    last = std::max(last, theirs[0]);
    if (theirs[0] > mine.next_step) {
      result.totals.assign(theirs.begin() + 1, theirs.end());
    }
  });
  const bool behind = mine.next_step < last;
  if (last - first > 1 || (behind && !mine.in_doubt)) {
    throw std::runtime_error(concat(
        "[settle] rank ", comm.rank(), " has committed the steps before ",
        mine.next_step, mine.in_doubt ? " (in doubt)" : "",
        " and another those before ", last,
        ": no vote leaves ranks like that; restart from a checkpoint"));
  }
  result.decision = behind ? Decision::kCommit : Decision::kRollBack;
  return result;
}

}  // namespace sluice
