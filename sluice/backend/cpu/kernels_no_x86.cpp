#include "sluice/backend/cpu/kernels.h"

// Other machines have the portable kernels only.

namespace sluice::cpu {

const Kernels* avx512_kernels() { return nullptr; }
const Kernels* avx2_kernels() { return nullptr; }

}  // namespace sluice::cpu
