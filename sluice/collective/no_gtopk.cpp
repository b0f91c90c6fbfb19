#include "sluice/collective/gtopk.h"

// For builds with SLUICE_WITH_GTOPK=OFF; see the patent notice in
// docs/algorithms.md.

namespace sluice {

std::span<const CollectiveEntry> gtopk_collectives() { return {}; }

}  // namespace sluice
