#include <cstddef>
#include <cstdint>

#include "sluice/backend/cpu/kernels.h"
#include "sluice/core/key.h"

namespace sluice::cpu {
namespace portable {
#include "sluice/backend/cpu/kernels_inl.h"
}  // namespace portable

const Kernels* portable_kernels() {
  static constexpr Kernels kTable =
      portable::table<portable::Scalar>("portable");
  return &kTable;
}

}  // namespace sluice::cpu
