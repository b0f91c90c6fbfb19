#pragma once

#include <span>
#include <string>
#include <vector>

#include "sluice/backend/backend.h"
#include "sluice/backend/clock.h"
#include "sluice/plan/profile.h"

namespace sluice {

// What the stages of a bucket take on a device, measured there: select by each
// of the sparsifiers, encode, decode and apply of what it selects, and sum, at
// a density; of random gradients of up to `largest` elements. Of a device that
// is not the host also copies between the two, and what the host would take in
// its place (of up to kHostLargest elements). Takes a second or two.
struct CostQuery {
  std::vector<std::string> sparsifiers;
  double density = 0.01;
  std::size_t largest = std::size_t{1} << 23;
  std::string device = "cpu";  // as the rows are to say
  // Of the backend that would select for another device: see SyncOptions::host.
  std::size_t host_threads = 1;
};
inline constexpr std::size_t kHostLargest = std::size_t{1} << 23;
std::vector<StageCost> measure_costs(Backend& backend, Clock& clock,
                                     const CostQuery& query);

}  // namespace sluice
