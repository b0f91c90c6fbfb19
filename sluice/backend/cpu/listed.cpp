// Selection of indices that are drawn, not found.

#include <algorithm>
#include <bit>

#include "sluice/backend/cpu/selector.h"
#include "sluice/core/key.h"
#include "sluice/core/permutation.h"

namespace sluice::cpu {

// A bitmap rather than a sort: marking costs O(k), reading it back in order
// n / 64 words.
void Selector::draw_indices() {
  std::size_t words = 0;
  for (Work& work : works_) {
    if (work.task->kind != SelectKind::kListed) continue;
    work.bitmap = words;
    words += (work.task->facts.n + 63) / 64;
  }
  std::uint64_t* bitmap = bitmap_.grow(words);
  std::fill_n(bitmap, words, 0U);
  for (const Work& work : works_) {
    const SegmentFacts& facts = work.task->facts;
    if (work.task->kind != SelectKind::kListed || facts.n == 0) continue;
    const Permutation permutation(facts.n,
                                  mix64(facts.seed, facts.tensor, facts.step));
    for (std::uint64_t j = 0; j < std::min(facts.k, facts.n); ++j) {
      const std::uint64_t at = permutation(j);
      bitmap[work.bitmap + at / 64] |= std::uint64_t{1} << (at % 64);
    }
  }
}

void Selector::stream_listed(const Work& work, Piece& piece) {
  const Source& source = work.source;
  const Candidates list = candidates(piece);
  std::size_t m = 0;
  for (std::size_t i = piece.begin; i < piece.end;) {
    const std::uint64_t word = bitmap_.data()[work.bitmap + i / 64] >> (i % 64);
    if (word == 0) {
      i += 64 - i % 64;
      continue;
    }
    i += static_cast<std::size_t>(std::countr_zero(word));
    if (i >= piece.end) break;
    const float acc = accumulated_at(source, i);
    if (acc != 0.0F && magnitude_key(acc) < kInfKey) {
      list.indices[m] = work.task->base + static_cast<std::uint32_t>(i);
      list.values[m++] = acc;
    }
    ++i;
  }
  piece.got = {};
  piece.got.recorded = m;
  piece.got.nonfinite =
      kernels_.accumulate(source.at(piece.begin), piece.end - piece.begin);
  if (source.memory == nullptr) return;
  for (std::size_t i = 0; i < m; ++i) {
    source.memory[list.indices[i] - work.task->base] = 0.0F;
  }
}

}  // namespace sluice::cpu
