#include <algorithm>

#include "sluice/backend/cuda/wire_grouped.cuh"
#include "sluice/backend/cuda/wire_measure.cuh"
#include "sluice/backend/cuda/wire_plan.cuh"
#include "sluice/backend/cuda/wire_write.cuh"

namespace sluice::cuda {
namespace {

__global__ void copy_kernel(const std::byte* from, std::byte* to,
                            const std::uint64_t* size, std::uint64_t most) {
  const std::uint64_t n = size == nullptr ? most : min_of(*size, most);
  for (std::uint64_t i = thread_index(); i < n; i += thread_count()) {
    to[i] = from[i];
  }
}

}  // namespace

unsigned wire_blocks(unsigned most, std::uint64_t bytes) {
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>(bytes / (16 * kThreads), 1, most));
}

void copy_bytes(cudaStream_t stream, const std::byte* from, std::byte* to,
                const std::uint64_t* size, std::uint64_t most) {
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::uint64_t>(most / kThreads, 1, 1024));
  launch("to copy a message", stream, blocks, copy_kernel, from, to, size,
         most);
}

WireEncoder::WireEncoder()
    : measure_blocks_(
          fitting_blocks(reinterpret_cast<const void*>(measure_kernel))),
      write_blocks_(
          fitting_blocks(reinterpret_cast<const void*>(write_kernel))) {}

void WireEncoder::run(cudaStream_t stream, Uploads& uploads,
                      const EncodePass& pass) {
  segments_.set(stream, uploads, pass.segments);
  EncodeArgs a;
  a.segments = segments_.device();
  a.count = segments_.count();
  a.size = segments_.size();
  a.too_large = a.size > kMostElements;
  a.options = pass.options;
  a.indices = pass.indices;
  a.values = pass.values;
  a.starts = pass.starts;
  a.capacity = pass.capacity;
  a.written = pass.written;
  // Words are written whole.
  const bool aligned = reinterpret_cast<std::uintptr_t>(pass.out) % 8 == 0;
  std::byte* out = aligned ? pass.out : aligned_.grow<std::byte>(pass.capacity);
  a.out = reinterpret_cast<std::uint32_t*>(out);

  const std::uint64_t n = a.too_large ? 0 : a.size;
  const std::uint64_t units = pack_blocks(n) + a.count;
  a.head = head_.grow<EncodeHead>(1);
  a.parts = parts_.grow<CodedPart>(a.count);
  a.elements = elements_.grow<Element>(2 * a.count);
  a.mismatches = mismatches_.grow<std::uint32_t>(a.count + 1);
  a.widths = widths_.grow<std::uint8_t>(units);
  a.offsets = offsets_.grow<std::uint32_t>(units);
  a.positions = positions_.grow<std::uint32_t>(segments_.end().entries_before);
  a.tables = tables_.grow<std::uint32_t>(4 * a.count);
  a.marks = marks_.grow<std::uint32_t>(segments_.end().marks);
  a.chunk_count = segments_.end().chunks;
  a.chunks = chunks_.grow<std::uint32_t>(a.chunk_count);
  a.bad = bad_.grow<std::uint32_t>(a.count);
  const unsigned blocks = wire_blocks(measure_blocks_, pass.capacity);
  if (segments_.strided()) {
    launch("to mark entries", stream, blocks, mark_kernel, a);
    launch("to count marks", stream, measure_blocks_, count_marks_kernel, a);
    launch("to sort entries", stream, measure_blocks_, collect_marks_kernel, a);
  }
  if (segments_.tables()) {
    launch("to find tables", stream, std::min(a.count, measure_blocks_),
           tables_kernel, a);
  }
  launch("to plan a message", stream, 1, plan_kernel, a);
  launch("to measure a message", stream, blocks, measure_kernel, a);
  launch("to write a message", stream,
         wire_blocks(write_blocks_, pass.capacity), write_kernel, a);
  if (a.options.checksum) {
    launch("to sum up a message", stream, blocks, sum_kernel, a);
  }
  if (!aligned) copy_bytes(stream, out, pass.out, pass.written, pass.capacity);
}

}  // namespace sluice::cuda
