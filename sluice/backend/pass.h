#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/backend/rule.h"
#include "sluice/core/view.h"
#include "sluice/core/wire.h"

// The arguments of the backend's passes: plain data whose pointers are device
// memory. Spans are read during the call; a backend that runs later copies.

namespace sluice {

enum class SelectKind : std::uint8_t {
  kThreshold,  // a magnitude threshold for the whole segment, by its Rule
  kRows,       // the k largest of every row
  kTiles,      // of every 64 x 64 tile (1-D: of every 4096 elements)
  kListed,     // k indices drawn from the seed, whatever their magnitudes
};

// Rows of `length` elements with stride `stride`: a slab of length * stride
// contiguous elements holds `stride` interleaved rows, and slabs follow each
// other. Tiles use it as (rows of the matrix, columns).
struct RowGeometry {
  std::size_t slabs = 0;
  std::size_t length = 0;
  std::size_t stride = 1;
  std::size_t k = 0;  // entries per row or tile

  static constexpr std::size_t kTileEdge = 64;
  static constexpr std::size_t kTileSize = kTileEdge * kTileEdge;
};

// What one segment's selection found. Device memory.
struct SegmentReport {
  std::uint64_t selected = 0;
  std::uint64_t budget = 0;
  std::uint64_t nonfinite = 0;
  std::uint64_t candidates = 0;
  std::uint32_t rounds = 0;  // brackets tried; > 1: an earlier one failed
  std::uint32_t exact = 0;   // the exact fallback ran
  double lost = 0;           // sum of |x| not sent where no memory keeps it
};

struct SegmentTask {
  const float* gradient = nullptr;  // null: nothing is added
  float* memory = nullptr;          // residual; null: nothing is kept
  std::uint32_t base = 0;           // index of the first element in the bucket
  SegmentFacts facts;
  SelectKind kind = SelectKind::kThreshold;
  Rule rule;         // kThreshold
  RowGeometry rows;  // kRows, kTiles, and rules that ask for rows
  // Most entries it may send: whatever a rule says, the largest of them go.
  std::size_t capacity = 0;
  ValueForm values = ValueForm::kFp32;
  // Non-finite elements that an earlier pass kept out; device memory, or null.
  const std::uint64_t* kept_out = nullptr;
};

// acc = beta * memory + gamma * gradient; the selected entries go to the block
// in index order and leave the memory; everything else stays in it. A
// non-finite acc is never selected and leaves the old memory in place. An acc
// of 0, of either sign, is never selected: whatever asks for k gets fewer where
// there are fewer others.
struct SelectPass {
  std::span<const SegmentTask> segments;
  float beta = 1;
  float gamma = 1;
  RuleState* states = nullptr;       // one per segment
  SegmentReport* reports = nullptr;  // one per segment
  // Room for the capacities of all segments together.
  std::uint32_t* indices = nullptr;
  float* values = nullptr;
  std::uint64_t* starts = nullptr;  // segments + 1; the last is the count
};

// One tensor's part of a MomentumPass.
struct MomentumTask {
  const float* gradient = nullptr;
  float* momentum = nullptr;
  float* velocity = nullptr;
  std::size_t n = 0;
  std::uint64_t* nonfinite = nullptr;  // set to the elements that stay as
                                       // they were
};

// u = m * u + g; v += u   (Nesterov: u = m * (u + g); v += u + g)
// with a tensor's g scaled down to `clip` first when its norm is larger (clip
// 0: off). Elements whose result is not finite keep their old u and v.
struct MomentumPass {
  std::span<const MomentumTask> tasks;
  float factor = 0.9F;
  bool nesterov = false;
  double clip = 0;
};

// Entries in device memory, indices ascending. The device knows how many.
struct SparseView {
  const std::uint32_t* indices = nullptr;
  const float* values = nullptr;
  const std::uint64_t* count = nullptr;
  std::size_t capacity = 0;  // most that the count can be
};

// Memory of the elements [base, base + size) of a bucket; null: there is none.
struct MemoryRange {
  float* data = nullptr;
  std::uint64_t base = 0;
  std::uint64_t size = 0;
};

enum class ScatterOp : std::uint8_t {
  kAdd,   // target[i] += scale * value
  kZero,  // target[i] = 0
};

// Applies entries to memory, one list after another; those whose memory there
// is none of go nowhere.
struct ScatterPass {
  std::span<const SparseView> lists;
  std::span<const MemoryRange> targets;  // in the order of the bucket
  ScatterOp op = ScatterOp::kAdd;
  float scale = 1;
};

// values[i] = what stands at the i-th index; 0 where there is no memory.
struct GatherPass {
  SparseView at;                         // its values are not read
  std::span<const MemoryRange> sources;  // in the order of the bucket
  float* values = nullptr;
};

// target = the tensors one after another, as fp32, plus what `residuals` hold
// for them.
struct PackPass {
  std::span<const TensorView> sources;
  std::span<const MemoryRange> residuals;  // one per source, or none at all
  float* target = nullptr;
};

// Writes to the tensors of a bucket: scale * dense, or where that is null,
// scale * the sum of the lists, each added in turn.
struct ApplyPass {
  std::span<const SparseView> lists;
  const float* dense = nullptr;
  std::span<const TensorView> targets;
  float scale = 1;
  // Set to the results that are not finite; one that several lists add to may
  // count for each. May be null.
  std::uint64_t* nonfinite = nullptr;
};

// Rounds each segment's values to its task's form; the remainder goes to its
// memory, or is lost where there is none.
struct QuantizePass {
  const std::uint32_t* indices = nullptr;
  float* values = nullptr;
  const std::uint64_t* starts = nullptr;
  std::span<const SegmentTask> tasks;
};

// words = values as bf16; remainders = what rounding took off.
struct NarrowPass {
  const float* values = nullptr;
  std::size_t n = 0;
  std::uint16_t* words = nullptr;
  float* remainders = nullptr;
};

// out = the sum of vectors of bf16, in their order, as fp32. The vector
// `own_slot` is `own` instead, if that is not null.
struct WidenPass {
  const std::uint16_t* words = nullptr;
  std::size_t slots = 1;   // vectors
  std::size_t stride = 0;  // words from one to the next
  std::size_t n = 0;
  const float* own = nullptr;  // may be `out`
  std::size_t own_slot = 0;
  float* out = nullptr;
};

// Rows or tiles of one segment, for IndexForm::kRows.
struct RowLayout {
  RowGeometry rows;
  bool tiles = false;
};

// How one segment of a bucket may travel; the same on all ranks.
struct SegmentForm {
  std::uint64_t size = 0;               // elements; segments follow each other
  ValueForm values = ValueForm::kFp32;  // carries its values without loss
  RowLayout rows{};                     // rows.rows.k == 0: not by rows
  bool sums = false;  // fp32 values that may have overflowed: Inf may travel
};

// Entries to send, and where received ones go.
struct BlockView {
  const std::uint32_t* indices = nullptr;
  const float* values = nullptr;
  const std::uint64_t* starts = nullptr;  // segments + 1; the last: the count
  std::span<const SegmentForm> segments;
};
struct BlockSink {
  std::uint32_t* indices = nullptr;
  float* values = nullptr;
  std::uint64_t* starts = nullptr;  // segments + 1
  std::size_t capacity = 0;
};

struct WireOptions {
  bool choose = true;  // the smallest index forms; otherwise `index_form`
  IndexForm index_form = IndexForm::kEliasFano;
  bool checksum = true;  // false: whoever carries the message checks it
};

// Writes a block as one message; see core/wire.h. The host knows nothing of it
// but the plan.
struct EncodePass : BlockView {
  WireOptions options;
  std::byte* out = nullptr;
  std::size_t capacity = 0;
  // Bytes; 0 if they do not fit `out` or the forced form the block.
  std::uint64_t* written = nullptr;
};

// Device memory.
struct DecodeResult {
  WireError error = WireError::kNone;
  std::uint32_t reserved = 0;
  std::uint64_t count = 0;
};

// Reads a message that anyone may have sent. On an error nothing but the
// receiving arrays has been touched, and nothing outside them; the counts are
// zero then.
struct DecodePass : BlockSink {
  const std::byte* in = nullptr;
  std::size_t bytes = 0;
  std::span<const SegmentForm> segments;  // of the bucket, as the sender has it
  DecodeResult* result = nullptr;
  // Device memory: how many of the bytes the message has, where only the device
  // knows; more than `bytes` is an error. Null: all of them.
  const std::uint64_t* size = nullptr;
};

}  // namespace sluice
