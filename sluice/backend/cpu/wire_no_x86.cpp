#include "sluice/backend/cpu/wire_kernels.h"

namespace sluice::cpu {

const WireKernels* avx2_wire_kernels() { return nullptr; }

}  // namespace sluice::cpu
