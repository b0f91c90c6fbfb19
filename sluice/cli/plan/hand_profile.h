#pragma once

#include <string>

#include "sluice/plan/profile.h"

namespace sluice {

// A model of known_models() on a machine that is not at hand: tensors by
// number, backward in proportion to their elements, no costs of stages.
Profile hand_profile(const std::string& model, double forward, double backward);

// Seconds that grow by `rate` per size from a floor.
CostCurve cost_line(double floor, double rate);

}  // namespace sluice
