// Reads profiles and networks as anyone may have made them; what it takes has
// times that make sense, and a profile survives another trip.

#include "readers.h"
#include "sluice/plan/network.h"
#include "sluice/plan/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  const auto text = fuzz::as_text(data, size);
  try {
    const Topology net = network_from_json(text);
    fuzz::expect_that(net.between.beta >= 0 && net.per_machine >= 1,
                      "a network makes no sense");
  } catch (const std::invalid_argument&) {
  }
  Profile profile;
  try {
    profile = profile_from_json(text);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  fuzz::expect_that(profile_from_json(to_json(profile)) == profile,
                    "a profile changed on another trip");
  for (const StageCost& cost : profile.costs) {
    for (const double x : {0.0, 1.0, 1e12}) {
      fuzz::expect_that(cost.curve.at(x) >= 0, "a cost is below zero");
    }
  }
  return 0;
}
