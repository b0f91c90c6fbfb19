#include "sluice/collective/vote.h"

#include <algorithm>
#include <cstring>

#include "sluice/collective/patterns.h"
#include "sluice/core/ensure.h"

namespace sluice {
namespace {

// What a rank says of the last decision that it has heard.
struct LastDecision {
  std::uint64_t decisions = 0;
  std::uint64_t step = 0;
  std::uint64_t decision = 0;

  friend bool operator==(const LastDecision&, const LastDecision&) = default;
};

LastDecision last_of(const Standing& s) {
  return {s.decisions, s.step, static_cast<std::uint64_t>(s.last)};
}

// Rank 0 gathers and broadcasts this, then numbers, then text.
struct VoteMessage {
  std::uint64_t choice = 0;
  std::uint64_t rank = 0;
  LastDecision last;  // before this vote
};

// All ranks exchange this, then the totals of the last decision.
struct SettleMessage {
  LastDecision last;
  std::uint64_t open = 0;  // 0 or 1
  std::uint64_t open_step = 0;
  std::uint64_t ballot = 0;
};

template <class Message>
Frame pack(Communicator& comm, const Message& message,
           std::span<const std::uint64_t> numbers, std::string_view text) {
  Frame frame =
      comm.make_frame(sizeof(message) + numbers.size_bytes() + text.size());
  std::byte* at = frame.payload().data();
  std::memcpy(at, &message, sizeof(message));
  at += sizeof(message);
  if (!numbers.empty()) std::memcpy(at, numbers.data(), numbers.size_bytes());
  at += numbers.size_bytes();
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  return frame;
}

constexpr std::size_t kWord = sizeof(std::uint64_t);

// Calls add(i, number) for each of `count` numbers.
template <class F>
void unpack_numbers(std::span<const std::byte> in, std::size_t count, F&& add) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t number = 0;
    std::memcpy(&number, in.data() + kWord * i, kWord);
    add(i, number);
  }
}

const char* word_for(std::uint64_t decision) {
  switch (static_cast<Decision>(decision)) {
    case Decision::kCommitted:
      return "committed";
    case Decision::kRolledBack:
      return "rolled back";
    case Decision::kUnknown:
      break;
  }
  return "of unknown outcome";
}

std::string describe(const Communicator& comm, const LastDecision& last) {
  if (last.decisions == 0) return "has heard no decision";
  return concat("has heard ", last.decisions,
                " decisions, the last about step ", comm.step_name(last.step),
                ", ", word_for(last.decision));
}

// Reads the message of `peer`; returns its text. Only a rank that stops sends
// text.
template <class F>
std::string_view unpack(Communicator& comm, std::size_t peer,
                        std::span<const std::byte> in, std::size_t count,
                        VoteMessage& message, F&& add) {
  const std::size_t head = sizeof(message) + kWord * count;
  if (in.size() >= sizeof(message)) {
    std::memcpy(&message, in.data(), sizeof(message));
  }
  const bool stops =
      message.choice == static_cast<std::uint64_t>(Ballot::kStop);
  if (in.size() < head || (in.size() > head && !stops)) {
    comm.reject(peer, concat("a vote of ", in.size(), " bytes, expected ", head,
                             "; do all ranks have the same buckets?"));
  }
  unpack_numbers(in.subspan(sizeof(message)), count, add);
  return {reinterpret_cast<const char*>(in.data()) + head, in.size() - head};
}

void expect_same_past(Communicator& comm, std::size_t peer,
                      const LastDecision& theirs, const LastDecision& mine) {
  if (theirs == mine) return;
  comm.reject(peer,
              concat("a vote of a rank that ", describe(comm, theirs),
                     ", where rank ", comm.rank(), " ", describe(comm, mine),
                     "; restart all ranks from a checkpoint"));
}

// What a rank brings to settle().
struct Part {
  SettleMessage message;
  std::vector<std::uint64_t> totals;
};

Part unpack_part(Communicator& comm, std::size_t peer,
                 std::span<const std::byte> in) {
  Part part;
  if (in.size() < sizeof(part.message)) {
    comm.reject(
        peer, concat("a standing of ", in.size(), " bytes, expected at least ",
                     sizeof(part.message)));
  }
  std::memcpy(&part.message, in.data(), sizeof(part.message));
  // The plan of a rank that has gone on may have other buckets by now.
  part.totals.resize((in.size() - sizeof(part.message)) / kWord);
  unpack_numbers(in.subspan(sizeof(part.message)), part.totals.size(),
                 [&](std::size_t i, std::uint64_t n) { part.totals[i] = n; });
  return part;
}

// Whether a vote can have left a rank like this if another has heard `ahead`,
// one decision more.
bool can_be_behind(const SettleMessage& m, const LastDecision& ahead) {
  const auto ballot = static_cast<Ballot>(m.ballot);
  const bool committed =
      ahead.decision == static_cast<std::uint64_t>(Decision::kCommitted);
  return m.last.decisions + 1 == ahead.decisions && m.open != 0 &&
         m.open_step == ahead.step && ballot != Ballot::kNone &&
         (ballot == Ballot::kYes || !committed);
}

// The place of a rank that has heard most decisions. Throws if no vote can
// leave the ranks where they are; all ranks see the same parts and throw alike.
std::size_t find_ahead(const Communicator& comm, std::span<const Part> parts) {
  const auto decisions = [](const Part& p) { return p.message.last.decisions; };
  const auto ahead = static_cast<std::size_t>(
      std::ranges::max_element(parts, {}, decisions) - parts.begin());
  const LastDecision& last = parts[ahead].message.last;
  std::size_t first_open = parts.size();
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const SettleMessage& m = parts[r].message;
    const bool level = m.last == last;
    ensure(level || can_be_behind(m, last), "[settle] rank ", ahead, " ",
           describe(comm, last), ", but rank ", r, " ", describe(comm, m.last),
           m.open != 0 ? concat(" and is in step ", comm.step_name(m.open_step))
                       : "",
           ": no vote leaves ranks like that; restart all ranks from a "
           "checkpoint");
    if (!level || m.open == 0) continue;
    if (first_open == parts.size()) first_open = r;
    const std::uint64_t step = parts[first_open].message.open_step;
    ensure(m.open_step == step, "[settle] rank ", first_open, " is in step ",
           comm.step_name(step), ", but rank ", r, " is in step ",
           comm.step_name(m.open_step),
           " after the same decisions; give all ranks the same step numbers");
  }
  return ahead;
}

}  // namespace

void vote(Communicator& comm, std::uint64_t step, Ballot ballot,
          std::span<const std::uint64_t> counts, Standing& mine,
          VoteResult& out, std::string_view reason) {
  constexpr std::uint32_t kBallot = 1;
  constexpr std::uint32_t kDecision = 2;
  comm.begin("vote", step);
  mine.open = {step, ballot};
  const LastDecision last = last_of(mine);
  VoteMessage slip = {static_cast<std::uint64_t>(ballot), comm.rank(), last};
  out.totals.assign(counts.begin(), counts.end());
  out.reason = reason;
  if (comm.rank() != 0) {
    Frame frame = pack(comm, slip, counts, reason);
    comm.send(0, kBallot, frame);
    const auto in = comm.receive(0, kDecision);
    out.reason = unpack(
        comm, 0, in, counts.size(), slip,
        [&](std::size_t i, std::uint64_t total) { out.totals[i] = total; });
    expect_same_past(comm, 0, slip.last, last);
  } else {
    for (std::size_t r = 1; r < comm.size(); ++r) {
      VoteMessage theirs;
      const auto in = comm.receive(r, kBallot);
      const std::string_view why =
          unpack(comm, r, in, counts.size(), theirs,
                 [&](std::size_t i, std::uint64_t n) { out.totals[i] += n; });
      expect_same_past(comm, r, theirs.last, last);
      if (theirs.choice <= slip.choice) continue;  // the lowest rank speaks
      slip = {theirs.choice, r, last};
      out.reason = why;
    }
    Frame frame = pack(comm, slip, out.totals, out.reason);
    send_to_others(comm, kDecision, frame);
  }
  const auto choice = static_cast<Ballot>(
      std::min<std::uint64_t>(slip.choice, std::uint64_t(Ballot::kStop)));
  out.decision =
      choice == Ballot::kYes ? Decision::kCommitted : Decision::kRolledBack;
  out.stops = choice == Ballot::kStop;
  out.stopper = slip.rank;
  mine.decisions += 1;
  mine.step = step;
  mine.last = out.decision;
  mine.totals.assign(out.totals.begin(), out.totals.end());
  mine.open.reset();
}

Settled settle(Communicator& comm, Standing& mine) {
  // Ranks come here from different steps.
  comm.begin("settle", Communicator::kLastStep);
  const Standing::Open open = mine.open.value_or(Standing::Open{});
  std::vector<Part> parts(comm.size());
  parts[comm.rank()] = {{last_of(mine), mine.open ? 1U : 0U, open.step,
                         static_cast<std::uint64_t>(open.ballot)},
                        mine.totals};
  Frame frame = pack(comm, parts[comm.rank()].message, mine.totals, {});
  send_to_others(comm, 0, frame);
  for_others(comm, [&](std::size_t peer) {
    parts[peer] = unpack_part(comm, peer, comm.receive(peer, 0));
  });
  const Part& ahead = parts[find_ahead(comm, parts)];
  Settled out;
  for (const Part& p : parts) {
    if (p.message.last != ahead.message.last || p.message.open == 0) continue;
    out.next_step = p.message.open_step;
  }
  if (mine.decisions < ahead.message.last.decisions) {
    mine.decisions = ahead.message.last.decisions;
    mine.step = ahead.message.last.step;
    mine.last = static_cast<Decision>(ahead.message.last.decision);
    mine.totals = ahead.totals;
    out.decision = mine.last;
  }
  mine.open.reset();
  return out;
}

}  // namespace sluice
