#include "sluice/sync/even_plans.h"

#include <cstring>

#include "sluice/collective/patterns.h"

namespace sluice {
namespace {

// What goes in front of the plan's text.
struct Head {
  Network network;  // less than 0: none
  std::uint64_t times = 0;
};

}  // namespace

std::optional<EvenPlan> plan_to_even(const EvenPlan& mine,
                                     std::span<const std::string> names,
                                     Communicator& comm) {
  Head head = {mine.network.value_or(Network{-1, -1}), mine.times};
  const std::string text = to_json(mine.plan, names);
  Frame frame = comm.make_frame(sizeof(head) + text.size());
  std::memcpy(frame.payload().data(), &head, sizeof(head));
  std::memcpy(frame.payload().data() + sizeof(head), text.data(), text.size());
  if (rank_that_differs(comm, "recover", Communicator::between_steps(1),
                        frame.payload()) == comm.rank()) {
    return std::nullopt;
  }
  comm.begin("recover", Communicator::between_steps(2));
  frame = broadcast(comm, 0, 0, std::move(frame));
  const std::span<const std::byte> bytes = frame.payload();
  std::memcpy(&head, bytes.data(), sizeof(head));
  const auto json = bytes.subspan(sizeof(head));
  EvenPlan out;
  out.plan = plan_from_json(
      {reinterpret_cast<const char*>(json.data()), json.size()}, names);
  if (head.network.alpha >= 0) out.network = head.network;
  out.times = head.times + 1;
  return out;
}

}  // namespace sluice
