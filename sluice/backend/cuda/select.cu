#include <cooperative_groups.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <stdexcept>

#include "sluice/backend/cuda/emit.cuh"
#include "sluice/backend/cuda/select.h"
#include "sluice/backend/cuda/slabs.cuh"
#include "sluice/backend/cuda/stream.cuh"
#include "sluice/backend/cuda/tiles.cuh"
#include "sluice/core/permutation.h"

namespace sluice::cuda {
namespace {

constexpr std::uint64_t kMuch = std::uint64_t{1} << 26;  // elements
// Of the stream, per processor: as many as keep the memory busy.
constexpr unsigned kStreamBlocks = 3;
// Flags that tell all blocks whether any segment needs another turn. Each is
// used once in a pass, since a block may be late to read it; the pass clears
// them when all have read them.
constexpr unsigned kFlags = kThreads;

__device__ void begin_segment(const SelectArgs& a, std::uint32_t i) {
  const Segment& s = a.segments[i];
  Work& w = a.works[i];
  w = {};
  const bool some = s.task.facts.n > 0;
  w.by_rows = s.task.kind == SelectKind::kRows || is_tiled(s.task) ? 1 : 0;
  w.open = s.task.kind == SelectKind::kThreshold && some ? 1 : 0;
  w.streaming = some ? 1 : 0;
  if (w.open == 0) return;
  const Query query = ask_rule(a, i);
  if (query.rows) {
    w.by_rows = 1;
    w.open = 0;
  } else {
    ask(s, w, query);
  }
}

__device__ void begin(const SelectArgs& a) {
  if (a.measures_lost) {
    for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < a.tiles;
         i += gridDim.x * kThreads) {
      a.tile_mass[i] = 0;
    }
  }
  // Each by the block that goes on with it.
  for_segments(a, [&](std::uint32_t i) {
    if (threadIdx.x == 0) begin_segment(a, i);
    __syncthreads();
  });
}

// Marks the entries of segments that are lists.
__device__ void draw(const SelectArgs& a) {
  for (std::uint32_t i = 0; i < a.count; ++i) {
    const Segment& s = a.segments[i];
    const SegmentFacts& facts = s.task.facts;
    if (s.task.kind != SelectKind::kListed || facts.n == 0) continue;
    const Permutation permutation(facts.n,
                                  mix64(facts.seed, facts.tensor, facts.step));
    const std::uint64_t k = min_of(facts.k, facts.n);
    for (std::uint64_t j = blockIdx.x * kThreads + threadIdx.x; j < k;
         j += std::uint64_t{gridDim.x} * kThreads) {
      mark(a, s, permutation(j));
    }
  }
}

// Another round for the segments whose brackets failed.
__device__ __noinline__ void go_again(const SelectArgs& a, const Grid& grid,
                                      bool searching, std::uint32_t*& flag) {
  restore_tiles(a);
  grid.sync();
  begin_round(a);
  grid.sync();
  for (int level = 0; level < 3 && searching; ++level) {
    search_tiles(a);
    grid.sync();
    for_segments(a, [&](std::uint32_t s) {
      if (a.works[s].open != 0 && a.works[s].searched != 0) search_step(a, s);
      __syncthreads();
    });
    grid.sync();
  }
  find_brackets(a, grid, flag);
  stream_rest(a);
  grid.sync();
}

// Up to the first brackets.
__global__ void __launch_bounds__(kThreads, 2)
    prepare_kernel(const __grid_constant__ SelectArgs a) {
  const Grid grid = cooperative_groups::this_grid();
  std::uint32_t* flag = a.flags;
  begin(a);
  if (a.draws) draw(a);
  if (!a.thresholds) return;
  find_brackets(a, grid, flag);
}

// The pass over all elements, in kernels of their own: the rules' registers
// would leave too few warps on a processor to keep the memory busy.
__global__ void __launch_bounds__(kThreads, kStreamBlocks)
    stream_kernel(const __grid_constant__ SelectArgs a) {
  stream_first(a);
}

__global__ void __launch_bounds__(kThreads)
    draw_kernel(const __grid_constant__ SelectArgs a) {
  draw_listed(a);
}

// Rows of one kind after another, each by a kernel of its own: one for several
// kinds has the registers and the code of all.
enum Rows : unsigned {
  kOf128,
  kOf256,
  kOf512,
  kOf768,
  kOf1024,
  kOf2048,
  kOf4096,
  kOf8192,
  kInSlabs,
  kInTiles,
  kShort,
  kLong
};

Rows rows_of(const Segment& s) {
  const std::uint64_t length = s.task.rows.length;
  switch (static_cast<Lists>(s.lists)) {
    case Lists::kWarp:
      return length <= 128   ? kOf128
             : length <= 256 ? kOf256
             : length <= 512 ? kOf512
             : length <= 768 ? kOf768
                             : kOf1024;
    case Lists::kBlock:
      return length <= 2048 ? kOf2048 : length <= 4096 ? kOf4096 : kOf8192;
    case Lists::kSlabs:
      return kInSlabs;
    case Lists::kNone:
      break;
  }
  if (is_held_tile(s.task)) return kInTiles;
  return most_per_group(s.task) > kWarpRow ? kLong : kShort;
}

// A unit of contiguous rows: a row for the block or for each warp, or kRows.
template <class Team, unsigned kQuads, unsigned kRows = 1>
__device__ void select_unit_of_rows(const SelectArgs& a, std::uint32_t segment,
                                    std::uint64_t unit) {
  const std::uint64_t row =
      Team::kSize == 32 ? (unit * kWarps + warp()) * kRows : unit;
  if (row >= a.segments[segment].task.rows.slabs) return;
  select_flat_rows<Team, kQuads, kRows>(a, segment, row);
}

template <Rows kRows>
__device__ void select_rows(const SelectArgs& a, std::uint32_t segment,
                            std::uint64_t unit) {
  switch (kRows) {
    case kOf128:
      return select_unit_of_rows<WarpTeam, 1, 4>(a, segment, unit);
    case kOf256:
      return select_unit_of_rows<WarpTeam, 2, 2>(a, segment, unit);
    case kOf512:
      return select_unit_of_rows<WarpTeam, 4>(a, segment, unit);
    case kOf768:
      return select_unit_of_rows<WarpTeam, 6>(a, segment, unit);
    case kOf1024:
      return select_unit_of_rows<WarpTeam, 8>(a, segment, unit);
    case kOf2048:
      return select_unit_of_rows<BlockTeam, 2>(a, segment, unit);
    case kOf4096:
      return select_unit_of_rows<BlockTeam, 4>(a, segment, unit);
    case kOf8192:
      return select_unit_of_rows<BlockTeam, 8>(a, segment, unit);
    case kInSlabs:
      return select_slabs(a, segment, unit);
    case kInTiles:
      return select_tile(a, segment, unit);
    default:
      return select_unit<kRows == kLong>(a, segment, unit);
  }
}

// kBlocks: that a processor is to have at once.
template <Rows kRows, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    rows_kernel(const __grid_constant__ SelectArgs a) {
  for (std::uint64_t unit = blockIdx.x; unit < a.units; unit += gridDim.x) {
    const std::uint32_t i = warp_segment_of(a.first_units, a.row_count, unit);
    const std::uint32_t segment = a.row_segments[i];
    if (a.works[segment].by_rows == 0) continue;
    select_rows<kRows>(a, segment, unit - a.first_units[i]);
  }
}

constexpr void (*kRowKernels[])(SelectArgs) = {
    rows_kernel<kOf128, 4>,   rows_kernel<kOf256, 4>,  rows_kernel<kOf512, 4>,
    rows_kernel<kOf768, 3>,   rows_kernel<kOf1024, 3>, rows_kernel<kOf2048, 4>,
    rows_kernel<kOf4096, 3>,  rows_kernel<kOf8192, 3>, rows_kernel<kInSlabs, 4>,
    rows_kernel<kInTiles, 3>, rows_kernel<kShort, 2>,  rows_kernel<kLong, 4>};

// From the first counts to the cuts.
__device__ __noinline__ void find_cuts(const SelectArgs& a, const Grid& grid) {
  std::uint32_t* flag = a.flags + kFlags / 4;
  if (*a.unfinished != 0) {
    stream_rest(a);
    grid.sync();
  }
  for (;;) {
    const Rounds rounds = {flag + 1, flag + 2};
    flag += 3;
    for_segments(a, [&](std::uint32_t s) {
      judge(a, s, rounds);
      __syncthreads();
      if (threadIdx.x == 0 && a.works[s].unresolved != 0) atomicAdd(flag, 1U);
    });
    grid.sync();
    if (*rounds.open == 0) break;
    go_again(a, grid, *rounds.searching != 0, flag);
  }
  // The cuts that the stream's bins did not tell.
  while (*flag != 0) {
    count_bins(a);
    grid.sync();
    ++flag;
    for_segments(a, [&](std::uint32_t s) {
      const bool open = a.works[s].unresolved != 0;
      __syncthreads();
      if (open) {
        resolve_step(a, s);
        __syncthreads();
        clear_bins(a, s);
      }
      __syncthreads();
      if (threadIdx.x == 0 && a.works[s].unresolved != 0) atomicAdd(flag, 1U);
    });
    grid.sync();
  }
}

// From the first counts to the block.
__global__ void __launch_bounds__(kThreads, 3)
    finish_kernel(const __grid_constant__ SelectArgs a) {
  const Grid grid = cooperative_groups::this_grid();
  if (a.thresholds) find_cuts(a, grid);
  count_all(a);
  grid.sync();
  if (blockIdx.x == 0 && threadIdx.x < kFlags) a.flags[threadIdx.x] = 0;
  if (a.thresholds) {
    for_segments(a, [&](std::uint32_t s) {
      if (a.works[s].few != 0) settle_few(a, s);
    });
    grid.sync();
  }
  emit_all(a);
  if (reporters() == 0 || blockIdx.x >= collectors()) report_all(a);
  if (!a.measures_lost) return;
  grid.sync();
  for_segments(a, [&](std::uint32_t s) { measure_lost(a, s); });
}

// Elements of the largest sample that a segment's queries look at together, and
// what is wanted of it.
struct LargestSample {
  std::uint64_t elements = 0;
  std::uint64_t keys = 0;
  bool bins = false;
};

LargestSample largest_sample(const SegmentTask& task) {
  LargestSample most;
  if (task.kind != SelectKind::kThreshold || task.facts.n == 0) return most;
  RuleState cold;
  const Query first = task.rule.ask({task.facts, task.rule.params, cold, 0});
  const std::uint64_t capacity = task.capacity;
  for (const Query& query :
       {first, exact_query(task.facts.n, std::max(task.facts.k, capacity))}) {
    const Sample sample(query, task.facts);
    if (!is_large(sample)) continue;
    most.elements = std::max(most.elements, sample.count);
    most.bins |= wants_bins(query);
    if (wants_ranks(query)) most.keys = std::max(most.keys, sample.count);
  }
  return most;
}

std::uint32_t slots_per_tile(const SegmentTask& task) {
  if (task.kind != SelectKind::kThreshold || task.facts.n == 0) return 0;
  const double expected = static_cast<double>(task.facts.k) /
                          static_cast<double>(task.facts.n) * kTile;
  const auto slots = static_cast<std::uint32_t>(4 * expected) + 1;
  return std::clamp(std::bit_ceil(slots), 32U, kTile);
}

Lists lists_of(const SegmentTask& task) {
  const RowGeometry& rows = task.rows;
  const std::uint64_t slab = rows.length * rows.stride;
  const bool fits = !is_tiled(task) && slab % 4 == 0 && rows.k <= rows.length &&
                    is_in_quads(task.gradient) && is_in_quads(task.memory);
  if (!fits) return Lists::kNone;
  if (rows.stride > 1) {
    return slab <= kSlabRoom && rows.length <= kWarpRow ? Lists::kSlabs
                                                        : Lists::kNone;
  }
  if (rows.length <= kWarpRow) return Lists::kWarp;
  return rows.length <= kCachedRow ? Lists::kBlock : Lists::kNone;
}

bool may_go_by_rows(const SegmentTask& task) {
  return task.facts.n > 0 && task.rows.k > 0 &&
         task.kind != SelectKind::kListed;
}

}  // namespace

static_assert(std::size(kRowKernels) == Selector::kRowKinds);

Selector::Selector()
    : prepare_blocks_(
          fitting_blocks(reinterpret_cast<const void*>(prepare_kernel))),
      row_blocks_(
          fitting_blocks(reinterpret_cast<const void*>(kRowKernels[kLong]))),
      finish_blocks_(
          fitting_blocks(reinterpret_cast<const void*>(finish_kernel))) {}

void Selector::plan(const SelectPass& pass) {
  const std::size_t count = pass.segments.size();
  segments_.assign(count, {});
  first_tiles_.assign(count + 1, 0);
  sizes_ = {};
  for (std::vector<std::uint32_t>& segments : rows_) segments.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const SegmentTask& task = pass.segments[i];
    if (task.kind == SelectKind::kThreshold &&
        task.rule.id == RuleId::kCustom) {
      throw std::invalid_argument(
          "[cuda] a rule must be one of sluice/sparsify/rules.h to run on a "
          "GPU, got a rule of the host");
    }
    Segment& s = segments_[i];
    s.task = task;
    const std::uint64_t n = task.facts.n;
    // What a block holds; of much more, since a narrower bracket saves more.
    s.task.facts.cheap_sample = n >= kMuch ? kHeldSample : kHeldSample / 2;
    s.task.facts.cheap_share = 4;
    s.room = std::min<std::uint64_t>(
        n, std::max<std::uint64_t>(2 * task.capacity, 6 * task.facts.k) + 4096);
    const auto tiles = static_cast<std::uint32_t>((n + kTile - 1) / kTile);
    first_tiles_[i + 1] = first_tiles_[i] + tiles;
    s.tile_slots = slots_per_tile(task);
    s.slots = sizes_.candidates;
    sizes_.candidates += std::uint64_t{tiles} * s.tile_slots;
    if (s.tile_slots > 0 && s.tile_slots < kTile) {
      s.spill = sizes_.candidates;
      sizes_.candidates += s.room;
    }
    const LargestSample sampled = largest_sample(task);
    s.keys = sizes_.keys;
    s.key_room = sampled.keys;
    sizes_.keys += sampled.keys;
    s.sample_bins = sizes_.sample_bins;
    if (sampled.bins) sizes_.sample_bins += kHistogramBins;
    s.ranked = sizes_.ranked;
    if (sampled.keys > 0) sizes_.ranked += kRanks * kListed;
    s.chunks = sizes_.chunks;
    sizes_.chunks += (sampled.elements + kChunk - 1) / kChunk;
    s.words = sizes_.words;
    sizes_.words += (n + 31) / 32;
    if (!may_go_by_rows(task)) continue;
    plan_rows(s, tiles);
    rows_[rows_of(s)].push_back(static_cast<std::uint32_t>(i));
  }
  row_segments_.clear();
  first_units_.clear();
  for (const std::vector<std::uint32_t>& segments : rows_) {
    row_segments_.insert(row_segments_.end(), segments.begin(), segments.end());
    std::uint64_t units = 0;
    for (const std::uint32_t i : segments) {
      first_units_.push_back(units);
      units += segments_[i].units;
    }
    first_units_.push_back(units);
  }
}

void Selector::plan_rows(Segment& s, std::uint32_t tiles) {
  const RowGeometry& rows = s.task.rows;
  const Lists how = lists_of(s.task);
  s.lists = static_cast<std::uint32_t>(how);
  if (how == Lists::kNone) {
    s.units = is_held_tile(s.task) ? group_count(s.task) : unit_count(s.task);
    return;
  }
  const std::uint64_t slots = rows.slabs * rows.stride * rows.k;
  const std::uint64_t each = slabs_at_a_time(rows, how);
  s.row_slots = sizes_.candidates;
  sizes_.candidates += slots;
  s.tile_rows_slots = static_cast<std::uint32_t>((slots + tiles - 1) / tiles);
  s.units = (rows.slabs + each - 1) / each;
}

void Selector::launch_rows(cudaStream_t stream, SelectArgs a) {
  const auto some = [](const auto& segments) { return !segments.empty(); };
  const bool several = std::count_if(rows_.begin(), rows_.end(), some) > 1;
  if (several) sides_.fork(stream);
  std::size_t lane = 0;
  for (unsigned kind = 0; kind < kRowKinds; ++kind) {
    a.row_count = static_cast<std::uint32_t>(rows_[kind].size());
    a.units = 0;
    for (const std::uint32_t i : rows_[kind]) a.units += segments_[i].units;
    if (a.units > 0) {
      const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(
          a.units, kind < kShort ? 1U << 30 : row_blocks_));
      launch("to select", several ? sides_.lane(lane++) : stream, blocks,
             kRowKernels[kind], a);
    }
    a.first_units += a.row_count + 1;
    a.row_segments += a.row_count;
  }
  if (several) sides_.join();
}

void Selector::run(cudaStream_t stream, Uploads& uploads,
                   const SelectPass& pass) {
  plan(pass);
  const std::size_t count = segments_.size();
  if (count == 0) {
    check(cudaMemsetAsync(pass.starts, 0, sizeof(*pass.starts), stream),
          "to clear counts");
    return;
  }
  SelectArgs a;
  std::tie(a.segments, a.first_tiles, a.first_units, a.row_segments) =
      uploads.send_together(std::span<const Segment>(segments_),
                            std::span<const std::uint32_t>(first_tiles_),
                            std::span<const std::uint64_t>(first_units_),
                            std::span<const std::uint32_t>(row_segments_));
  a.count = static_cast<std::uint32_t>(count);
  a.tiles = first_tiles_[count];
  a.beta = pass.beta;
  a.gamma = pass.gamma;
  for (const SegmentTask& task : pass.segments) {
    a.measures_lost |= task.memory == nullptr;
    a.draws |= task.kind == SelectKind::kListed;
    a.thresholds |= task.kind == SelectKind::kThreshold;
  }
  a.works = works_.grow<Work>(count);
  a.flags = flags_.grow<std::uint32_t>(kFlags);
  a.unfinished = a.flags + kFlags - 1;
  a.tile = tile_.grow<Tile>(a.tiles);
  a.tile_mass = a.measures_lost ? tile_mass_.grow<double>(a.tiles) : nullptr;
  a.tails = tails_.grow<Taken>(finish_blocks_);
  a.candidates = candidates_.grow<Entry>(sizes_.candidates);
  a.few = few_.grow<Entry>(count * kFew);
  a.keys = keys_.grow<std::uint32_t>(sizes_.keys);
  a.ranked = ranked_.grow<std::uint32_t>(sizes_.ranked);
  a.moments = moments_.grow<Moments>(sizes_.chunks);
  a.sample_bins = sample_bins_.grow<std::uint32_t>(sizes_.sample_bins);
  a.cut_bins = cut_bins_.grow<std::uint32_t>(count * kCutBins);
  a.tail_sums = tail_sums_.grow<TailSums>(
      std::min<std::size_t>(count, std::max(prepare_blocks_, finish_blocks_)) *
      (kHistogramBins + 1));
  a.bad_bits = bad_bits_.grow<std::uint32_t>(sizes_.words);
  a.row_bits =
      row_bits_.grow<std::uint32_t>(row_segments_.empty() ? 0 : sizes_.words);
  a.marks = marks_.grow<std::uint32_t>(sizes_.words);
  a.states = pass.states;
  a.reports = pass.reports;
  a.indices = pass.indices;
  a.values = pass.values;
  a.starts = pass.starts;
  launch_together("to prepare", stream, prepare_blocks_, prepare_kernel, a);
  launch_rows(stream, a);
  if (a.thresholds) {
    launch("to stream", stream, std::max(1U, (a.tiles + kWarps - 1) / kWarps),
           stream_kernel, a);
  }
  if (a.draws) launch("to draw", stream, finish_blocks_, draw_kernel, a);
  launch_together("to finish", stream, finish_blocks_, finish_kernel, a);
}

}  // namespace sluice::cuda
