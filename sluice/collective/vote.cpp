#include "sluice/collective/vote.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "sluice/collective/patterns.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

// What rank 0 gathers and broadcasts: this, numbers, then text.
struct Slip {
  std::uint64_t choice = 0;
  std::uint64_t rank = 0;  // or step
};

Frame pack(Communicator& comm, const Slip& slip,
           std::span<const std::uint64_t> numbers, std::string_view text) {
  Frame frame =
      comm.make_frame(sizeof(slip) + numbers.size_bytes() + text.size());
  std::byte* at = frame.payload().data();
  std::memcpy(at, &slip, sizeof(slip));
  at += sizeof(slip);
  if (!numbers.empty()) std::memcpy(at, numbers.data(), numbers.size_bytes());
  at += numbers.size_bytes();
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  return frame;
}

// Calls add(i, number) for each of `count` numbers; returns the text.
template <class F>
std::string_view unpack(Communicator& comm, std::size_t peer,
                        std::span<const std::byte> in, std::size_t count,
                        Slip& slip, F&& add) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const std::size_t head = sizeof(slip) + kWord * count;
  if (in.size() >= sizeof(slip)) std::memcpy(&slip, in.data(), sizeof(slip));
  // Only who stops has something to say.
  const bool speaks = slip.choice == static_cast<std::uint64_t>(Ballot::kStop);
  if (in.size() < head || (in.size() > head && !speaks)) {
    comm.reject(peer, concat("a vote with ", in.size(), " bytes where ", head,
                             " were due; do all ranks have the same buckets?"));
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t number = 0;
    std::memcpy(&number, in.data() + sizeof(slip) + kWord * i, kWord);
    add(i, number);
  }
  return {reinterpret_cast<const char*>(in.data()) + head, in.size() - head};
}

}  // namespace

void vote(Communicator& comm, std::uint64_t step, Ballot mine,
          std::span<const std::uint64_t> counts, VoteResult& out,
          std::string_view reason) {
  constexpr std::uint32_t kBallot = 1;
  constexpr std::uint32_t kDecision = 2;
  comm.begin("vote", step);
  Slip slip = {static_cast<std::uint64_t>(mine), comm.rank()};
  out.totals.assign(counts.begin(), counts.end());
  out.reason = reason;
  if (comm.rank() != 0) {
    Frame frame = pack(comm, slip, counts, reason);
    comm.send(0, kBallot, frame);
    const auto in = comm.receive(0, kDecision);
    out.reason = unpack(
        comm, 0, in, counts.size(), slip,
        [&](std::size_t i, std::uint64_t total) { out.totals[i] = total; });
  } else {
    for (std::size_t r = 1; r < comm.size(); ++r) {
      Slip theirs;
      const auto in = comm.receive(r, kBallot);
      const std::string_view why =
          unpack(comm, r, in, counts.size(), theirs,
                 [&](std::size_t i, std::uint64_t n) { out.totals[i] += n; });
      if (theirs.choice <= slip.choice) continue;  // the lowest rank speaks
      slip = {theirs.choice, r};
      out.reason = why;
    }
    Frame frame = pack(comm, slip, out.totals, out.reason);
    send_to_others(comm, kDecision, frame);
  }
  out.decision = static_cast<Decision>(
      std::min<std::uint64_t>(slip.choice, std::uint64_t(Decision::kStop)));
  out.stopper = slip.rank;
}

VoteResult settle(Communicator& comm, const Standing& mine) {
  // Under a step of its own: ranks come here from different ones.
  comm.begin("settle", Communicator::kLastStep);
  Frame frame =
      pack(comm, {0, mine.next_step}, mine.totals, std::string_view());
  send_to_others(comm, 0, frame);
  std::uint64_t first = mine.next_step;
  std::uint64_t last = mine.next_step;
  VoteResult result;
  result.totals = mine.totals;
  for_others(comm, [&](std::size_t peer) {
    Slip theirs;
    // Whose vote is not what this rank waits for may have other buckets by now.
    const auto in = comm.receive(peer, 0);
    const std::size_t count =
        (std::max(in.size(), sizeof(theirs)) - sizeof(theirs)) /
        sizeof(std::uint64_t);
    std::vector<std::uint64_t> totals(count);
    unpack(comm, peer, in, count, theirs,
           [&](std::size_t i, std::uint64_t total) { totals[i] = total; });
    first = std::min(first, theirs.rank);
    last = std::max(last, theirs.rank);
    if (theirs.rank <= mine.next_step) return;
    if (totals.size() != mine.totals.size()) {
      comm.reject(peer, concat("totals of ", totals.size(), " counts where ",
                               mine.totals.size(), " were due"));
    }
    result.totals = std::move(totals);
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
