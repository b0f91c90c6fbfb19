#include "sluice/backend/cpu/wire_kernels.h"

namespace sluice::cpu {
namespace portable {
#include "sluice/backend/cpu/wire_kernels_inl.h"
}  // namespace portable

const WireKernels& wire_kernels(std::string_view isa) {
  const WireKernels* best = isa == "portable" ? nullptr : avx2_wire_kernels();
  return best != nullptr ? *best : portable::kTable;
}

}  // namespace sluice::cpu
