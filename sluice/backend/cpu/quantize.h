#pragma once

#include <cstddef>
#include <span>

#include "sluice/backend/pass.h"

namespace sluice::cpu {

// Rounds values to what `form` can carry, in place.
void quantize_values(ValueForm form, std::span<float> values);

}  // namespace sluice::cpu
