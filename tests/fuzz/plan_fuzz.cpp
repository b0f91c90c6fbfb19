// Reads plans as anyone may have made them; those it takes survive another
// trip.

#include "readers.h"
#include "sluice/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  static const std::vector<std::string> names = {"a", "b.weight", "b.bias"};
  Plan plan;
  try {
    plan = plan_from_json(fuzz::as_text(data, size), names);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  fuzz::expect_that(plan_from_json(to_json(plan, names), names) == plan,
                    "a plan changed on another trip");
  return 0;
}
