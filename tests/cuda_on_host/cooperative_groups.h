#pragma once

#include "cuda_runtime.h"

namespace cooperative_groups {

struct grid_group {
  void sync() const {
    using namespace sluice::cuda_on_host;
    meet(Together::kGrid, 0);
  }
};
inline grid_group this_grid() { return {}; }

}  // namespace cooperative_groups
