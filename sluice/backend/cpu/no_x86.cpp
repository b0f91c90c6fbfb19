#include "sluice/backend/cpu/kernels.h"
#include "sluice/backend/cpu/wire_kernels.h"

// Other machines have the portable kernels only.

namespace sluice::cpu {

const Kernels* avx512_kernels() { return nullptr; }
const Kernels* avx2_kernels() { return nullptr; }
const WireKernels* avx2_wire_kernels() { return nullptr; }

}  // namespace sluice::cpu
