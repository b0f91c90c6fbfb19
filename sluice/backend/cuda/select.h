#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "sluice/backend/cuda/runtime.h"
#include "sluice/backend/pass.h"
#include "sluice/backend/sample.h"

namespace sluice::cuda {

// One segment as the kernel sees it: the task, and where its scratch lies.
struct Segment {
  SegmentTask task;
  std::uint64_t room = 0;        // candidates that are not an overflow
  std::uint64_t slots = 0;       // first candidate slot of its first tile
  std::uint32_t tile_slots = 0;  // candidate slots of a tile
  std::uint64_t spill = 0;       // where tiles with more hits go; `room` slots
  // Where its large samples go: keys, bins, and lists for each rank.
  std::uint64_t keys = 0;
  std::uint64_t key_room = 0;
  std::uint64_t sample_bins = 0;
  std::uint64_t ranked = 0;
  std::uint64_t chunks = 0;  // and their moments
  std::uint64_t words = 0;   // its bits in the bitmaps
  // How its rows write their entries to lists (see row_lists.cuh), of k slots
  // for each from row_slots on; 0: they mark them.
  std::uint32_t lists = 0;
  std::uint64_t row_slots = 0;
  std::uint32_t tile_rows_slots = 0;  // of them, that a tile collects
  std::uint64_t units = 0;            // that its rows are divided into
};

// Where the key of a rank stands in a sample: those that begin with `prefix`,
// all but the `open` bits.
struct Ranked {
  std::uint32_t prefix = 0;
  std::uint32_t open = 0;
  std::uint32_t inside = 0;    // how many begin so
  std::uint32_t gathered = 0;  // of them, in the list
  std::uint64_t left = 0;      // its rank among them; 0: not in the sample
};
inline constexpr unsigned kRanks = std::tuple_size_v<decltype(Query::ranks)>;

// One segment on its way through a pass. The steps are those of cpu::Selector.
struct Work {
  // Added to by all tiles of a stream.
  unsigned long long recorded = 0;  // candidates, ties not included
  unsigned long long high = 0;      // those that reach hi
  unsigned long long ties = 0;      // at lo, in a bracket of ties
  unsigned long long spilled = 0;   // slots used of the spill
  unsigned long long nonfinite = 0;
  unsigned long long marked = 0;   // selected by rows or from a list
  unsigned long long missing = 0;  // slots of flat rows that hold nothing

  std::uint32_t open = 0;       // a threshold is still to be found
  std::uint32_t asking = 0;     // a bracket is still to be proposed
  std::uint32_t restoring = 0;  // the last bracket failed
  std::uint32_t streaming = 0;  // takes part in the next stream
  std::uint32_t by_rows = 0;
  std::uint32_t settled = 0;  // the memory holds acc
  std::uint32_t exact = 0;
  std::uint32_t searched = 0;
  std::uint32_t round = 0;
  std::uint64_t wanted = 0;
  std::uint64_t candidates = 0;
  std::uint64_t selected = 0;
  Query query;
  Sample sample;  // that it asks for
  Ranked ranked[kRanks];
  Bracket bracket;
  Verdict verdict;

  // The search for the cut: the key of rank `rank` among those from `base` on,
  // of which the bins of the histogram are 2^shift wide.
  std::uint32_t unresolved = 0;
  std::uint32_t counted = 0;  // the stream has filled the histogram
  std::uint32_t base = 0;
  std::uint32_t shift = 0;
  std::uint32_t width = 0;  // keys that it can still be
  std::uint64_t rank = 0;
  std::uint32_t cut = 0;    // smallest key taken
  std::uint64_t quota = 0;  // of those at the cut
  std::uint32_t tied = 0;   // not all of those at the cut
  // Of the keys that it can still be, width from base on, so few are there that
  // they are listed: the first `rank` of them are taken, and stay in the list.
  std::uint32_t few = 0;
  std::uint32_t listed = 0;
};
inline constexpr std::uint32_t kFew = 256;

// What a tile of the stream found. Tiles are kTile elements of one segment.
struct Tile {
  std::uint32_t recorded = 0;
  std::uint32_t ties = 0;
  std::uint32_t bad = 0;     // not finite, in the first round
  std::uint32_t walked = 0;  // elements that the first pass came to
  std::uint64_t offset = 0;  // of its candidates; kUnrecorded: nowhere
};
inline constexpr std::uint64_t kUnrecorded = ~std::uint64_t{0};

// Entries above the cut of their segment and at it.
struct Taken {
  std::uint64_t above = 0;
  std::uint64_t at_cut = 0;
};

struct alignas(8) Entry {
  std::uint32_t index = 0;  // in the bucket
  float value = 0;
};
inline constexpr std::uint32_t kNoEntry = ~std::uint32_t{0};

// All that the kernel is given.
struct SelectArgs {
  const Segment* segments = nullptr;
  const std::uint32_t* first_tiles = nullptr;  // segments + 1
  // Of a kind of rows: the segments, what they are divided into, and how many
  // each of those comes after.
  const std::uint32_t* row_segments = nullptr;
  const std::uint64_t* first_units = nullptr;  // row_count + 1
  std::uint32_t row_count = 0;
  std::uint32_t count = 0;  // segments
  std::uint32_t tiles = 0;
  std::uint64_t units = 0;
  float beta = 1;
  float gamma = 1;
  bool measures_lost = false;  // some segment has no memory
  bool draws = false;          // some segment is a list
  bool thresholds = false;     // some segment may look for one

  Work* works = nullptr;
  Tile* tile = nullptr;
  double* tile_mass = nullptr;  // sum of |x|, where it is measured
  Taken* tails = nullptr;       // what a block takes of its last segment
  Entry* candidates = nullptr;
  Entry* few = nullptr;  // kFew per segment
  std::uint32_t* keys = nullptr;
  std::uint32_t* ranked = nullptr;
  Moments* moments = nullptr;
  std::uint32_t* sample_bins = nullptr;  // kHistogramBins each
  std::uint32_t* cut_bins = nullptr;     // kCutBins per segment
  TailSums* tail_sums = nullptr;         // of the block that proposes
  std::uint32_t* bad_bits = nullptr;     // not finite in the first round
  std::uint32_t* row_bits = nullptr;     // not finite, in a long row; zeros
  std::uint32_t* marks = nullptr;        // selected by rows or from a list
  std::uint32_t* unfinished = nullptr;   // tiles that the first pass left
  std::uint32_t* flags = nullptr;        // zeros

  RuleState* states = nullptr;
  SegmentReport* reports = nullptr;
  std::uint32_t* indices = nullptr;
  float* values = nullptr;
  std::uint64_t* starts = nullptr;
};

inline constexpr std::uint32_t kTile = 2048;
// Of the search for a cut: as many as leave few candidates in one of them.
inline constexpr std::uint32_t kCutBits = 13;
inline constexpr std::uint32_t kCutBins = 1U << kCutBits;
// Of the search for a key digit by digit.
inline constexpr std::uint32_t kDigitBits = 11;
inline constexpr std::uint32_t kDigitBins = 1U << kDigitBits;

// Runs Backend::select on the GPU, by kernels that go through the phases of
// cpu::Selector: up to the brackets, the pass over all elements, and the rest,
// which goes round again by itself where a bracket failed. Rounds, fallbacks
// and counts stay on the device. Neither the grid nor the order in which tiles
// are done shows in the result.
class Selector {
 public:
  static constexpr std::size_t kRowKinds = 12;

  Selector();
  void run(cudaStream_t stream, Uploads& uploads, const SelectPass& pass);

 private:
  void plan(const SelectPass& pass);
  void plan_rows(Segment& s, std::uint32_t tiles);
  void launch_rows(cudaStream_t stream, SelectArgs a);

  // As many as run at once.
  unsigned prepare_blocks_;
  unsigned row_blocks_;
  unsigned finish_blocks_;
  // The segments that may go by rows of each kind; then one kind after another.
  std::array<std::vector<std::uint32_t>, kRowKinds> rows_;
  std::vector<std::uint32_t> row_segments_;
  SideStreams sides_;  // a kind of rows each
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> first_tiles_;
  std::vector<std::uint64_t> first_units_;
  struct Sizes {
    std::uint64_t candidates = 0;
    std::uint64_t keys = 0;
    std::uint64_t sample_bins = 0;
    std::uint64_t ranked = 0;
    std::uint64_t chunks = 0;
    std::uint64_t words = 0;
  } sizes_;
  Scratch works_, tile_, tile_mass_, tails_, candidates_, few_, keys_, ranked_,
      moments_, sample_bins_, cut_bins_, tail_sums_, bad_bits_, row_bits_,
      marks_, flags_;
};

}  // namespace sluice::cuda
