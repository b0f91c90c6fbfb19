#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/backend/cpu/kernels.h"
#include "sluice/backend/cpu/scratch.h"
#include "sluice/backend/pass.h"

namespace sluice::cpu {

// An element whose accumulated value is not finite, and the memory it keeps.
struct Saved {
  std::size_t offset;
  float value;
};

// Marks the elements [begin, end) whose acc is not finite as NaN in the memory,
// so that later scans of the memory pass them over, and appends what was there.
void hide_nonfinite(const Source& source, std::size_t begin, std::size_t end,
                    std::vector<Saved>& saved);
void show_nonfinite(const Source& source, std::vector<Saved>& saved);

// Scratch of one thread of row selection; keeps its guesses between calls,
// which only make it faster.
struct RowScratch {
  Scratch<std::uint32_t> indices;
  Scratch<float> values;
  Scratch<std::uint32_t> keys;      // sorted by group
  Scratch<std::uint32_t> group_of;  // of each candidate
  Scratch<std::uint32_t> pattern;   // threshold of each column
  Scratch<std::uint32_t> starts;    // of each group in `keys`
  Scratch<std::uint32_t> cuts;
  Scratch<std::uint32_t> quotas;
  std::vector<Saved> saved;
  std::uint32_t guess = 0;  // key that about `target` entries of a row reach
};

// Units that row selection can be split into: slabs, or bands of tiles.
std::size_t row_units(const SegmentTask& task, SelectKind kind);

// The most entries a unit selects.
std::size_t unit_capacity(const SegmentTask& task, SelectKind kind);

// The k largest of each row or tile of the units [begin, end), as far as they
// are finite and not zero, to `out` in index order; the selected leave the
// memory. Returns the number and the non-finite count.
StreamResult select_rows(const Kernels& kernels, const SegmentTask& task,
                         SelectKind kind, const Source& source,
                         std::size_t begin, std::size_t end,
                         RowScratch& scratch, const Candidates& out);

}  // namespace sluice::cpu
