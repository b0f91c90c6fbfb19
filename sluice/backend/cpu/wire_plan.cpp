#include <algorithm>

#include "sluice/backend/cpu/wire.h"

namespace sluice::cpu::wire {
namespace {

// About what one part more costs: its header, and bits that end in words.
constexpr std::size_t kPartCost = sizeof(WirePart) + 16;

bool by_rows(const Part& part) { return part.index_form == IndexForm::kRows; }

// One segment alone, by rows if that is smaller.
Part part_of(const BlockView& block, std::size_t s, std::uint64_t base) {
  const SegmentForm& segment = block.segments[s];
  Part part{
      s, s + 1, {base, segment.size}, IndexForm::kEliasFano, segment.values};
  const std::uint64_t count = part.count(block);
  if (count > 0 &&
      row_bytes(block, part) < counted_form(segment.size, count).bytes) {
    part.index_form = IndexForm::kRows;
  }
  return part;
}

// Whether `next` can be a part of `part`: the forms are the same, or one of
// them is empty and can have any.
bool joins(const BlockView& block, const Part& part, const Part& next) {
  if (next.count(block) == 0) {
    return !by_rows(part) || row_bytes(block, next) == 0;
  }
  if (part.count(block) == 0) {
    return !by_rows(next) || row_bytes(block, part) == 0;
  }
  return part.index_form == next.index_form &&
         part.value_form == next.value_form;
}

Part joined(const BlockView& block, const Part& part, Part next) {
  if (next.count(block) == 0) {
    next.index_form = part.index_form;
    next.value_form = part.value_form;
  }
  next.first = part.first;
  next.range = {part.range.base, part.range.size + next.range.size};
  return next;
}

void join_neighbours(const BlockView& block, std::vector<Part>& parts) {
  std::size_t last = 0;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (joins(block, parts[last], parts[i])) {
      parts[last] = joined(block, parts[last], parts[i]);
    } else {
      parts[++last] = parts[i];
    }
  }
  parts.resize(std::min(parts.size(), last + 1));
}

// Bytes of a part's sections, about.
std::size_t bytes_of(const BlockView& block, const Part& part) {
  const std::uint64_t count = part.count(block);
  return value_bytes(count, part.last - part.first, part.value_form) +
         (by_rows(part) ? row_bytes(block, part)
                        : counted_form(part.range.size, count).bytes);
}

// A part whose neighbours could take it in, were it plainer, must save what the
// additional parts cost.
void drop_small_parts(const BlockView& block, std::vector<Part>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto try_as = [&](const Part& plain) {
      std::size_t joined = 0;
      if (i > 0 && joins(block, parts[i - 1], plain)) ++joined;
      if (i + 1 < parts.size() && joins(block, plain, parts[i + 1])) ++joined;
      if (joined > 0 && bytes_of(block, parts[i]) + joined * kPartCost >=
                            bytes_of(block, plain)) {
        parts[i] = plain;
      }
    };
    Part plain = parts[i];
    plain.index_form = IndexForm::kEliasFano;
    try_as(plain);
    plain.value_form = ValueForm::kFp32;
    try_as(plain);
  }
}

}  // namespace

std::size_t row_bytes(const BlockView& block, const Part& part) {
  std::uint64_t bits = 0;
  for (std::size_t s = part.first; s < part.last; ++s) {
    const std::uint64_t entries = row_entries(block.segments[s]);
    if (entries != block.starts[s + 1] - block.starts[s]) return kCannot;
    if (entries > 0) bits += entries * row_bits(block.segments[s].rows);
  }
  return 8 * words_for(bits);
}

void plan_parts(const BlockView& block, bool choose, IndexForm forced,
                std::vector<Part>& parts) {
  parts.clear();
  std::uint64_t base = 0;
  for (std::size_t s = 0; s < block.segments.size(); ++s) {
    parts.push_back(part_of(block, s, base));
    if (!choose) parts.back().index_form = forced;
    base += block.segments[s].size;
  }
  join_neighbours(block, parts);
  if (!choose) return;
  drop_small_parts(block, parts);
  join_neighbours(block, parts);
}

}  // namespace sluice::cpu::wire
