#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

// Loops over lists in host memory, by the kernels that the CPU backend chooses;
// those of all instruction sets give the same bits. What they write to needs
// kListSlack slots behind the last.
inline constexpr std::size_t kListSlack = 64;

struct Entries {
  const std::uint32_t* indices;
  const float* values;
  std::size_t count;

  Entries first(std::size_t n) const { return {indices, values, n}; }
  Entries from(std::size_t n) const {
    return {indices + n, values + n, count - n};
  }
};

struct EntriesOut {
  std::uint32_t* indices;
  float* values;

  EntriesOut from(std::size_t n) const { return {indices + n, values + n}; }
};

// How many values have a magnitude_key of at least `key`.
std::size_t count_from(const float* values, std::size_t n, std::uint32_t key);

// Copies the entries with lo <= magnitude_key < hi <= 2^31; returns how many.
std::size_t copy_between(const Entries& list, std::uint32_t lo,
                         std::uint32_t hi, const EntriesOut& out);

// Copies the entries whose flag is 1 to `ones`, and those where it is 0 to
// `zeros`; returns the number of the former.
std::size_t copy_by_flag(const Entries& list, const std::uint32_t* flags,
                         const EntriesOut& ones, const EntriesOut& zeros);

// The sum of two lists of ascending indices; returns its size. An index that
// both have gets the sum of their values.
std::size_t merge_lists(const Entries& a, const Entries& b,
                        const EntriesOut& out);

}  // namespace sluice
