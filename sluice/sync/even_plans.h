#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sluice/comm/communicator.h"
#include "sluice/cost/model.h"
#include "sluice/plan/plan.h"

namespace sluice {

// By what a rank goes on.
struct EvenPlan {
  Plan plan;
  std::optional<Network> network;
  std::uint64_t times = 0;  // that ranks had to even theirs
};

// An error may have met some ranks before a change of plans and others behind
// it. A call of all ranks: what the first one has, once more evened, if another
// differs; it counts how often, since an error may meet that as well. `names`:
// of the tensors.
std::optional<EvenPlan> plan_to_even(const EvenPlan& mine,
                                     std::span<const std::string> names,
                                     Communicator& comm);

}  // namespace sluice
