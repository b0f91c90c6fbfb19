#include "sluice/backend/cpu/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sluice/core/key.h"

namespace sluice::cpu {
namespace {

constexpr std::size_t kEdge = RowGeometry::kTileEdge;
constexpr std::size_t kExactInFloat = 1U << 24;

// A contiguous stretch of `size` elements in which element j belongs to group
// (j % stride) >> shift: one row (stride 1), interleaved rows (shift 0), or
// tiles side by side (shift 6).
struct Slab {
  std::size_t start = 0;
  std::size_t size = 0;
  std::size_t stride = 1;
  unsigned shift = 0;
  std::size_t groups = 1;
};

struct Job {
  const Kernels& kernels;
  const SegmentTask& task;
  Source source;
  RowScratch& s;
  std::size_t k;
  // Candidates per row to aim for: enough that few rows fall short, few enough
  // that picking k of them is cheap.
  std::int64_t target;
  std::int64_t gain;
  StreamResult total;  // recorded, non-finite
};

std::uint32_t index_of(const Job& job, std::size_t offset) {
  return job.task.base + static_cast<std::uint32_t>(offset);
}

// What a scan of the memory as it now stands reads.
Source settled(const Source& source) {
  Source memory = source;
  if (memory.memory != nullptr) memory.gradient = nullptr;
  return memory;
}

// The key that everything reaches but zeros.
constexpr std::uint32_t kLeast = 1;

// A threshold that lets more through.
std::uint32_t lower(std::uint32_t key, unsigned attempt) {
  constexpr std::uint32_t kStep = 1U << 22;  // half an octave
  return attempt == 0 && key > kStep ? key - kStep : kLeast;
}

// Moves the guess towards the target; the slope of a tail in octaves is a few,
// so an eighth of an octave per miss of one target is stable. Not for rows of
// zeros alone: they tell nothing of others.
void adapt(Job& job, std::size_t candidates) {
  const std::int64_t miss =
      (static_cast<std::int64_t>(candidates) - job.target) * job.gain;
  const std::int64_t next = static_cast<std::int64_t>(job.s.guess) +
                            std::clamp<std::int64_t>(miss, -(1 << 20), 1 << 21);
  job.s.guess = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(next, 1, kInfKey - 1));
}

std::uint32_t key_at(const RowScratch& s, std::size_t i) {
  return magnitude_key(s.values.data()[i]);
}

void clear_selected(const Job& job, const Candidates& out, std::size_t m) {
  if (job.source.memory == nullptr) return;
  for (std::size_t i = 0; i < m; ++i) {
    job.source.memory[out.indices[i] - job.task.base] = 0.0F;
  }
}

// The cut of the k largest of m > kSmall candidates, by bisection on the key.
Cut cut_large(const Job& job, std::size_t m, std::size_t k, std::uint32_t lo) {
  const float* values = job.s.values.data();
  std::uint32_t low = lo;  // count_ge(low) >= k
  std::uint32_t high = 0;
  for (std::size_t i = 0; i < m; ++i) high = std::max(high, key_at(job.s, i));
  ++high;  // count_ge(high) < k
  std::size_t at_low = m;
  while (high - low > 1 && at_low != k) {
    const std::uint32_t mid = low + (high - low) / 2;
    const std::size_t c = job.kernels.count_ge(values, m, mid);
    if (c >= k) {
      low = mid;
      at_low = c;
    } else {
      high = mid;
    }
  }
  if (at_low == k) return {low, m};
  return {low, k - job.kernels.count_ge(values, m, low + 1)};
}

StreamResult scan_row(const Job& job, const Slab& slab, const Source& source,
                      std::uint32_t lo) {
  StreamArgs args;
  args.source = source.at(slab.start);
  args.n = slab.size;
  args.base = index_of(job, slab.start);
  args.lo = lo;
  args.hi = kInfKey;
  args.many = true;
  args.out = {job.s.indices.data(), job.s.values.data(), slab.size + 1024};
  return job.kernels.stream(args);
}

void emit_tied(const Job& job, std::size_t k, const Cut& cut,
               const Candidates& out) {
  std::size_t quota = cut.quota;
  for (std::size_t i = 0, o = 0; o < k; ++i) {
    const std::uint32_t key = key_at(job.s, i);
    if (key < cut.key || (key == cut.key && quota == 0)) continue;
    quota -= key == cut.key ? 1U : 0U;
    out.indices[o] = job.s.indices.data()[i];
    out.values[o++] = job.s.values.data()[i];
  }
}

// The one or two largest of m candidates, without a branch that depends on
// them.
void take_top_two(const RowScratch& s, std::size_t m, std::size_t k,
                  const Candidates& out) {
  std::uint64_t first = 0;  // key and, so that ties go to the lower one, ~index
  std::uint64_t second = 0;
  for (std::size_t i = 0; i < m; ++i) {
    const std::uint64_t entry =
        std::uint64_t{key_at(s, i)} << 32 | static_cast<std::uint32_t>(~i);
    second = std::max(second, std::min(first, entry));
    first = std::max(first, entry);
  }
  const auto position = [](std::uint64_t entry) {
    return static_cast<std::size_t>(~static_cast<std::uint32_t>(entry));
  };
  std::size_t at[2] = {position(first), position(second)};
  if (k == 2 && at[1] < at[0]) std::swap(at[0], at[1]);
  for (std::size_t i = 0; i < k; ++i) {
    out.indices[i] = s.indices.data()[at[i]];
    out.values[i] = s.values.data()[at[i]];
  }
}

// The k largest of one contiguous row, appended to `out`.
std::size_t select_row(Job& job, const Slab& slab, const Candidates& out) {
  RowScratch& s = job.s;
  const bool cold = s.guess == 0;
  std::uint32_t lo = std::max(s.guess, kLeast);
  StreamResult got = scan_row(job, slab, job.source, lo);
  job.total.nonfinite += got.nonfinite;
  const std::size_t guessed = got.recorded;
  if (got.recorded < job.k && lo > kLeast && got.nonfinite > 0) {
    hide_nonfinite(job.source, slab.start, slab.start + slab.size, s.saved);
  }
  for (unsigned attempt = 0; got.recorded < job.k && lo > kLeast; ++attempt) {
    lo = lower(lo, attempt);
    got = scan_row(job, slab, settled(job.source), lo);
  }
  const std::size_t m = got.recorded;
  const std::size_t k = std::min(job.k, m);
  if (m > 0) adapt(job, guessed);
  const Candidates from = {s.indices.data(), s.values.data(), m};
  if (k <= 2 && m <= kSmall) {
    take_top_two(s, m, k, out);
  } else if (m <= kSmall) {
    job.kernels.top_small(from, m, k, out.indices, out.values);
  } else {
    const Cut cut = cut_large(job, m, k, lo);
    if (cut.quota == m) {
      job.kernels.emit(from, m, cut.key, out.indices, out.values, k);
    } else {
      emit_tied(job, k, cut, out);
    }
  }
  if (cold && k > 0) {
    s.guess = kInfKey - 1;
    for (std::size_t i = 0; i < k; ++i) {
      s.guess = std::min(s.guess, magnitude_key(out.values[i]));
    }
  }
  clear_selected(job, out, k);
  if (!s.saved.empty()) show_nonfinite(job.source, s.saved);
  return k;
}

// x % d for x < 2^32 by two multiplications (Lemire, Kaser, Kurz 2019).
struct FastMod {
  std::uint64_t inverse;
  std::uint32_t d;
  explicit FastMod(std::uint32_t divisor)
      : inverse(~std::uint64_t{0} / divisor + 1), d(divisor) {}
  std::uint32_t operator()(std::uint32_t x) const {
    return static_cast<std::uint32_t>(
        (static_cast<unsigned __int128>(inverse * x) * d) >> 64);
  }
};

void set_threshold(Job& job, const Slab& slab, std::size_t group,
                   std::uint32_t key) {
  const std::size_t begin = group << slab.shift;
  const std::size_t end = std::min(slab.stride, (group + 1) << slab.shift);
  std::fill(job.s.pattern.data() + begin, job.s.pattern.data() + end, key);
}

StreamResult scan_groups(Job& job, const Slab& slab, const Source& source) {
  std::uint32_t* pattern = job.s.pattern.data();
  for (std::size_t j = 0; j < 16; ++j) {
    pattern[slab.stride + j] = pattern[j % slab.stride];
  }
  return job.kernels.pattern(
      {source.at(slab.start),
       slab.size,
       index_of(job, slab.start),
       pattern,
       slab.stride,
       {job.s.indices.data(), job.s.values.data(), slab.size}});
}

// The group of each candidate.
void find_groups(Job& job, const Slab& slab, std::size_t m) {
  RowScratch& s = job.s;
  const auto stride = static_cast<std::uint32_t>(slab.stride);
  const std::uint32_t first = index_of(job, slab.start);
  if (slab.size < kExactInFloat) {
    job.kernels.groups_of(s.indices.data(), m, first, stride, slab.shift,
                          s.group_of.data());
    return;
  }
  const FastMod column(stride);
  for (std::size_t i = 0; i < m; ++i) {
    s.group_of.data()[i] = column(s.indices.data()[i] - first) >> slab.shift;
  }
}

// For k <= 2: each group's cut and quota in one pass over the candidates.
void tally_top_two(Job& job, const Slab& slab, std::size_t m) {
  RowScratch& s = job.s;
  std::uint32_t* first = s.keys.data();
  std::uint32_t* second = s.keys.data() + slab.groups;
  std::uint32_t* counts = s.starts.data();
  std::fill_n(first, 2 * slab.groups, 0U);
  std::fill_n(counts, slab.groups, 0U);
  find_groups(job, slab, m);
  for (std::size_t i = 0; i < m; ++i) {
    const std::uint32_t g = s.group_of.data()[i];
    const std::uint32_t key = key_at(s, i);
    ++counts[g];
    second[g] = std::max(second[g], std::min(first[g], key));
    first[g] = std::max(first[g], key);
  }
  for (std::size_t g = 0; g < slab.groups; ++g) {
    const bool one = job.k == 1;
    s.cuts.data()[g] = one ? first[g] : second[g];
    s.quotas.data()[g] = one || first[g] > second[g] ? 1 : 2;
  }
}

// Sorts the candidates' keys by group: group g has keys[starts[g] .. starts[g +
// 1]), and group_of[i] is the group of candidate i.
void sort_into_groups(Job& job, const Slab& slab, std::size_t m) {
  RowScratch& s = job.s;
  std::uint32_t* starts = s.starts.data();
  std::uint32_t* group_of = s.group_of.data();
  std::fill_n(starts, slab.groups + 2, 0U);
  find_groups(job, slab, m);
  for (std::size_t i = 0; i < m; ++i) ++starts[group_of[i] + 2];
  for (std::size_t g = 1; g < slab.groups; ++g) starts[g + 1] += starts[g];
  for (std::size_t i = 0; i < m; ++i) {
    s.keys.data()[starts[group_of[i] + 1]++] = key_at(s, i);
  }
}

Cut cut_of(const Job& job, std::uint32_t* keys, std::size_t m, std::size_t k) {
  if (m <= k) return {0, m};
  if (m <= kSmall) return job.kernels.cut_small(keys, m, k);
  std::nth_element(keys, keys + (k - 1), keys + m, std::greater<>());
  const std::uint32_t cut = keys[k - 1];
  const auto above = static_cast<std::size_t>(
      std::count_if(keys, keys + k, [&](std::uint32_t x) { return x > cut; }));
  return {cut, k - above};
}

// How many candidates group g has, after either of the two above.
std::size_t candidates_of(const Job& job, std::size_t g) {
  const std::uint32_t* starts = job.s.starts.data();
  return job.k <= 2 ? starts[g] : starts[g + 1] - starts[g];
}

// Scans until every group has k candidates or has shown all it holds.
std::size_t gather_candidates(Job& job, const Slab& slab) {
  RowScratch& s = job.s;
  for (std::size_t g = 0; g < slab.groups; ++g) {
    set_threshold(job, slab, g, std::max(s.guess, kLeast));
  }
  StreamResult got = scan_groups(job, slab, job.source);
  job.total.nonfinite += got.nonfinite;
  bool hide = got.nonfinite > 0;
  const std::size_t guessed = got.recorded / slab.groups;
  for (unsigned attempt = 0;; ++attempt) {
    if (job.k <= 2) {
      tally_top_two(job, slab, got.recorded);
    } else {
      sort_into_groups(job, slab, got.recorded);
    }
    bool enough = true;
    for (std::size_t g = 0; g < slab.groups; ++g) {
      const std::uint32_t threshold = s.pattern.data()[g << slab.shift];
      const std::size_t m = job.k <= 2
                                ? s.starts.data()[g]
                                : s.starts.data()[g + 1] - s.starts.data()[g];
      if (m >= job.k || threshold == kLeast) continue;
      enough = false;
      set_threshold(job, slab, g, lower(threshold, attempt));
    }
    if (enough) break;
    if (hide) {
      hide_nonfinite(job.source, slab.start, slab.start + slab.size, s.saved);
      hide = false;
    }
    got = scan_groups(job, slab, settled(job.source));
  }
  if (got.recorded > 0) adapt(job, guessed);
  return got.recorded;
}

// One by one, until `count` are found: in some group only some of those at the
// cut are taken.
void emit_groups_tied(const Job& job, std::size_t count,
                      const Candidates& out) {
  const RowScratch& s = job.s;
  for (std::size_t i = 0, o = 0; o < count; ++i) {
    const std::uint32_t g = s.group_of.data()[i];
    const std::uint32_t key = key_at(s, i);
    const bool tie = key == s.cuts.data()[g];
    const bool take = key > s.cuts.data()[g] || (tie && s.quotas.data()[g] > 0);
    if (!take) continue;
    s.quotas.data()[g] -= tie ? 1U : 0U;
    out.indices[o] = s.indices.data()[i];
    out.values[o++] = s.values.data()[i];
  }
}

// The k largest of every group of a slab, appended to `out` in index order.
std::size_t select_groups(Job& job, const Slab& slab, const Candidates& out) {
  RowScratch& s = job.s;
  const bool cold = s.guess == 0;
  const std::size_t m = gather_candidates(job, slab);
  std::uint32_t* cuts = s.cuts.data();
  std::uint32_t* quotas = s.quotas.data();
  for (std::size_t g = 0; job.k > 2 && g < slab.groups; ++g) {
    const std::uint32_t begin = s.starts.data()[g];
    const Cut cut = cut_of(job, s.keys.data() + begin,
                           s.starts.data()[g + 1] - begin, job.k);
    cuts[g] = cut.key;
    quotas[g] = static_cast<std::uint32_t>(cut.quota);
  }
  const std::uint32_t highest = *std::max_element(cuts, cuts + slab.groups);
  if (cold) s.guess = highest;
  std::size_t expected = 0;
  for (std::size_t g = 0; g < slab.groups; ++g) {
    expected += std::min(job.k, candidates_of(job, g));
  }
  const std::size_t reached = job.kernels.emit_grouped(
      {s.indices.data(), s.values.data(), m}, m, s.group_of.data(), cuts,
      expected, out.indices, out.values);
  if (reached != expected) emit_groups_tied(job, expected, out);
  clear_selected(job, out, expected);
  if (!s.saved.empty()) show_nonfinite(job.source, s.saved);
  return expected;
}

std::size_t groups_of(std::size_t stride, unsigned shift) {
  return (stride + (std::size_t{1} << shift) - 1) >> shift;
}

// Unit `unit` of the task: a slab of rows, a band of tiles, or a piece of a 1-D
// tensor.
Slab slab_of(const SegmentTask& task, SelectKind kind, std::size_t unit) {
  const RowGeometry& rows = task.rows;
  Slab slab;
  if (kind == SelectKind::kTiles && rows.length == 1) {
    slab.start = unit * RowGeometry::kTileSize;
    slab.size = std::min(RowGeometry::kTileSize, rows.stride - slab.start);
    return slab;
  }
  slab.stride = rows.stride;
  if (kind == SelectKind::kTiles) {
    const std::size_t first = unit * kEdge;
    slab.start = first * rows.stride;
    slab.size = std::min(kEdge, rows.length - first) * rows.stride;
    slab.shift = 6;
  } else {
    slab.size = rows.length * rows.stride;
    slab.start = unit * slab.size;
  }
  slab.groups = groups_of(slab.stride, slab.shift);
  return slab;
}

void reserve(RowScratch& s, const Slab& slab) {
  s.indices.grow(slab.size + 1024 + kSlack);
  s.values.grow(slab.size + 1024 + kSlack);
  if (slab.stride == 1) return;
  s.keys.grow(std::max(slab.size, 2 * slab.groups) + kSlack);
  s.group_of.grow(slab.size + kSlack);
  s.pattern.grow(slab.stride + 16);
  s.starts.grow(slab.groups + 2);
  s.cuts.grow(slab.groups);
  s.quotas.grow(slab.groups);
}

std::int64_t target_of(std::size_t k, std::size_t groups) {
  // With many groups one that falls short costs a scan of them all.
  const double deviations = groups > 64 ? 4 : groups == 1 || k <= 4 ? 2.5 : 3;
  const auto wanted = static_cast<double>(k);
  return static_cast<std::int64_t>(wanted + deviations * std::sqrt(wanted) +
                                   1.5);
}

}  // namespace

void hide_nonfinite(const Source& source, std::size_t begin, std::size_t end,
                    std::vector<Saved>& saved) {
  if (source.memory == nullptr || source.gradient == nullptr) return;
  for (std::size_t i = begin; i < end; ++i) {
    if (magnitude_key(accumulated_at(source, i)) < kInfKey) continue;
    saved.push_back({i, source.memory[i]});
    source.memory[i] = std::numeric_limits<float>::quiet_NaN();
  }
}

void show_nonfinite(const Source& source, std::vector<Saved>& saved) {
  for (const Saved& old : saved) source.memory[old.offset] = old.value;
  saved.clear();
}

std::size_t row_units(const SegmentTask& task, SelectKind kind) {
  const RowGeometry& rows = task.rows;
  if (kind != SelectKind::kTiles) return rows.slabs;
  return rows.length == 1 ? (rows.stride + RowGeometry::kTileSize - 1) /
                                RowGeometry::kTileSize
                          : (rows.length + kEdge - 1) / kEdge;
}

std::size_t unit_capacity(const SegmentTask& task, SelectKind kind) {
  const Slab slab = slab_of(task, kind, 0);
  return std::min(slab.size, slab.groups * task.rows.k);
}

StreamResult select_rows(const Kernels& kernels, const SegmentTask& task,
                         SelectKind kind, const Source& source,
                         std::size_t begin, std::size_t end,
                         RowScratch& scratch, const Candidates& out) {
  if (begin == end) return {};
  const Slab first = slab_of(task, kind, begin);
  const std::int64_t target = target_of(task.rows.k, first.groups);
  Job job = {
      kernels, task, source, scratch, task.rows.k, target, (1 << 20) / target,
      {}};
  reserve(scratch, first);
  for (std::size_t unit = begin; unit < end; ++unit) {
    const Slab slab = slab_of(task, kind, unit);
    const Candidates here = {out.indices + job.total.recorded,
                             out.values + job.total.recorded, 0};
    job.total.recorded += slab.stride == 1 ? select_row(job, slab, here)
                                           : select_groups(job, slab, here);
  }
  return job.total;
}

}  // namespace sluice::cpu
