#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/backend/cpu/wire_sections.h"

// Messages of sparse entries in host memory; see core/wire.h for the format.

namespace sluice::cpu::wire {

// Segments [first, last) that travel together.
struct Part {
  std::size_t first = 0;
  std::size_t last = 0;
  Range range;  // of their elements
  IndexForm index_form = IndexForm::kEliasFano;
  ValueForm value_form = ValueForm::kFp32;

  std::uint64_t count(const BlockView& block) const {
    return block.starts[last] - block.starts[first];
  }
};

// Which segments go together and how: row positions and table forms where they
// are smaller, and as few parts as that allows. A forced form goes to all
// segments with the same values. Replaces `parts`.
void plan_parts(const BlockView& block, bool choose, IndexForm forced,
                std::vector<Part>& parts);

// Bytes of the part's index section if it goes by rows; kCannot if it does not
// have as many entries as its rows hold.
std::size_t row_bytes(const BlockView& block, const Part& part);

// Writes and reads messages. Keeps its memory from one to the next.
class Coder {
 public:
  explicit Coder(const WireKernels& kernels) : kernels_(kernels) {}

  // Indices ascend, each inside its segment. Returns the size, or 0 if it does
  // not fit `out` or a forced index form cannot carry the block. Values that a
  // table cannot carry go as fp32; 16-bit forms round what was not rounded
  // before.
  std::size_t encode(const BlockView& block, const WireOptions& options,
                     std::span<std::byte> out);

  // Reads a message of at most indices.size() entries; `starts` has one more
  // than there are segments.
  DecodeResult decode(std::span<const std::byte> in,
                      std::span<const SegmentForm> segments,
                      std::span<std::uint32_t> indices, std::span<float> values,
                      std::uint64_t* starts);

 private:
  std::byte* write_part_indices(const BlockView& block, Part& part, bool choose,
                                std::byte* at, std::byte* end);
  std::byte* write_part_values(const BlockView& block, Part& part,
                               std::byte* at, std::byte* end);
  WireError read_part(const WirePart& part, const Part& place, Reader& in,
                      std::span<const SegmentForm> forms,
                      std::span<std::uint32_t> indices, float* values,
                      std::uint64_t* starts);
  WireError read_all(std::span<const std::byte> in,
                     std::span<const SegmentForm> segments,
                     std::span<std::uint32_t> indices, float* values,
                     std::uint64_t* starts);

  const WireKernels& kernels_;
  std::vector<Part> parts_;
  RowScratch rows_;
};

// Of a whole message, whose checksum field counts as 0; never 0 itself.
std::uint32_t checksum(std::span<const std::byte> message);
std::uint32_t checksum(const WireKernels& kernels,
                       std::span<const std::byte> message);

}  // namespace sluice::cpu::wire
