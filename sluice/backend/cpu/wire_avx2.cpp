// Built with AVX2 flags; entered only where the machine has them.
#include "sluice/backend/cpu/wire_kernels.h"

namespace sluice::cpu {
namespace avx2 {
#include "sluice/backend/cpu/wire_kernels_inl.h"
}  // namespace avx2

const WireKernels* avx2_wire_kernels() {
  const bool runs =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
  return runs ? &avx2::kTable : nullptr;
}

}  // namespace sluice::cpu
