#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sluice/backend/rule.h"

// The hot loops of the CPU backend, compiled once per instruction set from
// kernels_inl.h and chosen at run time. All versions give the same bits: sums
// keep one order and no multiply is fused with an add.

namespace sluice::cpu {

// Where acc = beta * memory + gamma * gradient comes from. Without a gradient
// it is the memory as it stands; without a memory it is gamma * gradient.
struct Source {
  const float* gradient = nullptr;
  float* memory = nullptr;
  float beta = 1;
  float gamma = 1;
  int sign = 0;  // +1 / -1: other signs count as magnitude 0, key 0

  // Inlined always: compiled for one instruction set and merged into another,
  // it would crash there.
  __attribute__((always_inline)) Source at(std::size_t offset) const {
    Source moved = *this;
    if (gradient != nullptr) moved.gradient += offset;
    if (memory != nullptr) moved.memory += offset;
    return moved;
  }
};

// One element of it, for the paths that go one by one.
inline float accumulated_at(const Source& s, std::size_t i) {
  if (s.gradient == nullptr) return s.memory[i];
  const float added = s.gamma * s.gradient[i];
  return s.memory == nullptr ? added : s.beta * s.memory[i] + added;
}

// A vector store may run past the last candidate by this many slots.
inline constexpr std::size_t kSlack = 64;

// A list of candidates; `room` slots may be used, kSlack more must exist.
struct Candidates {
  std::uint32_t* indices = nullptr;
  float* values = nullptr;
  std::size_t room = 0;
};

struct StreamArgs {
  Source source;
  std::size_t n = 0;
  std::uint32_t base = 0;   // index of element 0
  std::uint32_t lo = 0;     // record keys >= lo
  std::uint32_t hi = 0;     // and zero the memory where key >= hi
  std::size_t tie_cap = 0;  // > 0: hi == lo + 1, record only so many ties
  bool many = false;        // expect a hit in every few vectors
  Candidates out;
};

struct StreamResult {
  std::size_t recorded = 0;
  std::size_t hi = 0;
  std::size_t nonfinite = 0;
  bool overflow = false;  // out.room was too small; the rest was not recorded
};

// Interleaved rows: element i has threshold pattern[i % stride]; the pattern is
// repeated until stride + 16 entries. Nothing is zeroed.
struct PatternArgs {
  Source source;
  std::size_t n = 0;
  std::uint32_t base = 0;
  const std::uint32_t* pattern = nullptr;
  std::size_t stride = 1;
  Candidates out;  // room must be >= n
};

// Lists of up to this many keys are ranked by counting, without a branch.
inline constexpr std::size_t kSmall = 64;

// The smallest key of a selection and how many of those at it belong to it.
struct Cut {
  std::uint32_t key = 0;
  std::size_t quota = 0;
};

struct Kernels {
  std::string_view name;

  // The floor: r += g.
  void (*add)(float* r, const float* g, std::size_t n);
  // memory = acc where it is finite; returns how many are not.
  std::size_t (*accumulate)(const Source& source, std::size_t n);
  StreamResult (*stream)(const StreamArgs& args);
  StreamResult (*pattern)(const PatternArgs& args);
  // Copies the candidates with key >= cut, which must be `count` many.
  void (*emit)(const Candidates& from, std::size_t m, std::uint32_t cut,
               std::uint32_t* indices, float* values, std::size_t count);
  // Copies the candidates with lo <= key < hi; returns how many. `to` needs m
  // slots and kSlack.
  std::size_t (*collect)(const Candidates& from, std::size_t m,
                         std::uint32_t lo, std::uint32_t hi,
                         std::uint32_t* indices, float* values);
  // Copies the candidates whose flag is 1 to one list and those where it is 0
  // to another; returns the number of the former. Both need m slots and kSlack.
  std::size_t (*divide)(const Candidates& from, std::size_t m,
                        const std::uint32_t* flags, const Candidates& ones,
                        const Candidates& zeros);
  // The sum of two lists of ascending indices; returns its size. `out` needs
  // slots for both and kSlack.
  std::size_t (*merge)(const Candidates& a, const Candidates& b,
                       const Candidates& out);
  // Copies the candidates that reach the cut of their group; returns how many,
  // or gives up with a number above `most`. Needs kSlack writable slots behind
  // `most`.
  std::size_t (*emit_grouped)(const Candidates& from, std::size_t m,
                              const std::uint32_t* group_of,
                              const std::uint32_t* cuts, std::size_t most,
                              std::uint32_t* indices, float* values);
  // groups[i] = ((indices[i] - base) % stride) >> shift, for differences below
  // 2^24.
  void (*groups_of)(const std::uint32_t* indices, std::size_t m,
                    std::uint32_t base, std::uint32_t stride, unsigned shift,
                    std::uint32_t* groups);
  std::size_t (*count_ge)(const float* values, std::size_t m,
                          std::uint32_t cut);
  // to = factor * from, which may be the same; returns how many are not finite.
  std::size_t (*scale)(const float* from, float factor, float* to,
                       std::size_t n);
  // Copies the k <= m largest of m <= kSmall candidates, ties to the first,
  // order kept. Needs kSlack readable slots behind m and writable ones behind
  // k.
  void (*top_small)(const Candidates& from, std::size_t m, std::size_t k,
                    std::uint32_t* indices, float* values);
  // The cut of the k <= m largest of m <= kSmall keys; kSlack readable behind.
  Cut (*cut_small)(const std::uint32_t* keys, std::size_t m, std::size_t k);
  // Adds to the moments (without `sums`, only counts and the maximum); writes n
  // keys (0 for a non-finite acc) and, if `histogram` is not null, counts them.
  void (*statistics)(const Source& source, std::size_t n, bool sums,
                     std::uint32_t* keys, std::uint32_t* histogram,
                     Moments& moments);
};

// Null where the compiler could not build it or the machine cannot run it.
const Kernels* avx512_kernels();
const Kernels* avx2_kernels();
const Kernels* portable_kernels();

// The best that the machine has, those named, or, if no name is given, those
// that SLUICE_CPU names.
const Kernels& choose_kernels(std::string_view isa);

}  // namespace sluice::cpu
