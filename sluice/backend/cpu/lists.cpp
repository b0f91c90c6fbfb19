#include "sluice/backend/lists.h"

#include "sluice/backend/cpu/kernels.h"

namespace sluice {
namespace {

static_assert(kListSlack >= cpu::kSlack);

const cpu::Kernels& kernels() {
  static const cpu::Kernels& chosen = cpu::choose_kernels("");
  return chosen;
}

// Kernels take lists of candidates, which they do not change.
cpu::Candidates candidates(const Entries& list) {
  return {const_cast<std::uint32_t*>(list.indices),
          const_cast<float*>(list.values), list.count};
}

}  // namespace

std::size_t count_from(const float* values, std::size_t n, std::uint32_t key) {
  return kernels().count_ge(values, n, key);
}

std::size_t copy_between(const Entries& list, std::uint32_t lo,
                         std::uint32_t hi, const EntriesOut& out) {
  return kernels().collect(candidates(list), list.count, lo, hi, out.indices,
                           out.values);
}

std::size_t copy_by_flag(const Entries& list, const std::uint32_t* flags,
                         const EntriesOut& ones, const EntriesOut& zeros) {
  return kernels().divide(candidates(list), list.count, flags,
                          {ones.indices, ones.values, list.count},
                          {zeros.indices, zeros.values, list.count});
}

std::size_t merge_lists(const Entries& a, const Entries& b,
                        const EntriesOut& out) {
  return kernels().merge(candidates(a), candidates(b),
                         {out.indices, out.values, a.count + b.count});
}

}  // namespace sluice
