#include <cstring>

#include "sluice/backend/cpu/wire_kernels.h"

namespace sluice::cpu {
namespace {
#include "sluice/backend/cpu/wire_kernels_inl.h"
}  // namespace

const WireKernels& wire_kernels(std::string_view isa) {
  const WireKernels* best = isa == "portable" ? nullptr : avx2_wire_kernels();
  return best != nullptr ? *best : kTable;
}

}  // namespace sluice::cpu
