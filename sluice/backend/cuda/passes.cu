#include <algorithm>
#include <cmath>

#include "sluice/backend/cuda/block.cuh"
#include "sluice/backend/cuda/passes.h"
#include "sluice/core/key.h"

namespace sluice::cuda {
namespace {

using Count = unsigned long long;

// Enough blocks for the largest GPU; loops stride over the rest.
unsigned blocks_for(std::uint64_t n) {
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>((n + kThreads - 1) / kThreads, 1, 4096));
}

__device__ std::uint64_t thread_index() {
  return std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
}
__device__ std::uint64_t thread_count() {
  return std::uint64_t{gridDim.x} * kThreads;
}

__device__ bool is_bad(float x) { return magnitude_key(x) >= kInfKey; }

// Adds a count per thread to *to, once per warp that has any.
__device__ void add_count(std::uint64_t* to, unsigned mine) {
  const unsigned sum = __reduce_add_sync(kAll, mine);
  if (lane() == 0 && sum > 0) {
    atomicAdd(reinterpret_cast<Count*>(to), static_cast<Count>(sum));
  }
}

__global__ void fill_kernel(float* target, std::uint64_t n, float value) {
  for (std::uint64_t i = thread_index(); i < n; i += thread_count()) {
    target[i] = value;
  }
}

__global__ void count_kernel(const float* values, std::uint64_t n,
                             std::uint64_t* count) {
  unsigned bad = 0;
  for (std::uint64_t i = thread_index(); i < n; i += thread_count()) {
    bad += is_bad(values[i]) ? 1U : 0U;
  }
  add_count(count, bad);
}

__global__ void narrow_kernel(NarrowPass pass) {
  for (std::uint64_t i = thread_index(); i < pass.n; i += thread_count()) {
    const float x = pass.values[i];
    const std::uint16_t word = to_bf16(x);
    pass.words[i] = word;
    pass.remainders[i] = x - from_bf16(word);
  }
}

__global__ void widen_kernel(WidenPass pass) {
  const auto value = [&](std::uint64_t slot, std::uint64_t i) {
    return pass.own != nullptr && slot == pass.own_slot
               ? pass.own[i]
               : from_bf16(pass.words[slot * pass.stride + i]);
  };
  for (std::uint64_t i = thread_index(); i < pass.n; i += thread_count()) {
    float sum = value(0, i);
    for (std::uint64_t s = 1; s < pass.slots; ++s) sum += value(s, i);
    pass.out[i] = sum;
  }
}

struct Places {
  std::span<const Place> all;
  std::uint64_t size = 0;
};

Places places_of(PassScratch& scratch, std::span<const TensorView> views,
                 std::span<const MemoryRange> residuals) {
  std::vector<Place>& all = scratch.places;
  std::uint64_t size = 0;
  all.clear();
  for (std::size_t i = 0; i < views.size(); ++i) {
    Place place;
    place.view = views[i];
    place.residual = residuals.empty() ? nullptr : residuals[i].data;
    place.base = size;
    place.size = views[i].size();
    place.flat = views[i].contiguous();
    size += place.size;
    if (place.size > 0) all.push_back(place);
  }
  return {all, size};
}

// The last of `count` things that begin at or before `index`.
template <class T>
__device__ const T& find(const T* all, std::uint32_t count,
                         std::uint64_t index) {
  std::uint32_t low = 0;
  std::uint32_t high = count;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    if (all[middle].base <= index) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return all[low];
}

__global__ void pack_kernel(const Place* places, std::uint32_t count,
                            std::uint64_t n, float* target) {
  for (std::uint64_t i = thread_index(); i < n; i += thread_count()) {
    const Place& place = find(places, count, i);
    float x = place.load(i - place.base);
    if (place.residual != nullptr) x += place.residual[i - place.base];
    target[i] = x;
  }
}

// What is written where: scale * dense, or zeros where that is null.
__global__ void write_kernel(const Place* places, std::uint32_t count,
                             std::uint64_t n, const float* dense, float scale,
                             std::uint64_t* nonfinite) {
  unsigned bad = 0;
  for (std::uint64_t i = thread_index(); i < n; i += thread_count()) {
    const Place& place = find(places, count, i);
    const float x = dense == nullptr ? 0.0F : scale * dense[i];
    bad += is_bad(x) ? 1U : 0U;
    place.store(i - place.base, x);
  }
  if (nonfinite != nullptr) add_count(nonfinite, bad);
}

__global__ void add_list_kernel(const Place* places, std::uint32_t count,
                                SparseView list, float* dense, float scale,
                                std::uint64_t* nonfinite) {
  const std::uint64_t n = *list.count;
  unsigned bad = 0;
  for (std::uint64_t i = thread_index(); i < n; i += thread_count()) {
    const std::uint64_t index = list.indices[i];
    const float added = scale * list.values[i];
    float x;
    if (dense != nullptr) {
      x = dense[index] += added;
    } else {
      const Place& place = find(places, count, index);
      x = place.load(index - place.base) + added;
      place.store(index - place.base, x);
    }
    bad += is_bad(x) ? 1U : 0U;
  }
  if (nonfinite != nullptr) add_count(nonfinite, bad);
}

__global__ void scatter_kernel(SparseView list, const MemoryRange* ranges,
                               std::uint32_t count, ScatterOp op, float scale) {
  const std::uint64_t n = *list.count;
  for (std::uint64_t i = thread_index(); i < n; i += thread_count()) {
    const std::uint64_t index = list.indices[i];
    const MemoryRange& range = find(ranges, count, index);
    if (range.data == nullptr || index - range.base >= range.size) continue;
    float& target = range.data[index - range.base];
    target = op == ScatterOp::kZero ? 0.0F : target + scale * list.values[i];
  }
}

__global__ void gather_kernel(SparseView at, const MemoryRange* ranges,
                              std::uint32_t count, float* values) {
  const std::uint64_t n = *at.count;
  for (std::uint64_t i = thread_index(); i < n; i += thread_count()) {
    const std::uint64_t index = at.indices[i];
    float x = 0;
    if (count > 0) {
      const MemoryRange& range = find(ranges, count, index);
      const bool has = range.data != nullptr && index - range.base < range.size;
      if (has) x = range.data[index - range.base];
    }
    values[i] = x;
  }
}

std::span<const MemoryRange> without_empty(
    PassScratch& scratch, std::span<const MemoryRange> ranges) {
  std::vector<MemoryRange>& out = scratch.ranges;
  out.clear();
  for (const MemoryRange& range : ranges) {
    if (range.size > 0) out.push_back(range);
  }
  return out;
}

constexpr std::uint64_t kNormChunk = 1U << 14;

__global__ void norm_kernel(const Moving* all, double* partial) {
  const Moving& m = all[blockIdx.y];
  for (std::uint32_t c = blockIdx.x; c < m.chunks; c += gridDim.x) {
    double sum = 0;
    const std::uint64_t begin = c * kNormChunk;
    const std::uint64_t end = min_of(m.task.n, begin + kNormChunk);
    for (std::uint64_t i = begin + threadIdx.x; i < end; i += kThreads) {
      const auto v = static_cast<double>(m.task.gradient[i]);
      sum += isfinite(v) ? v * v : 0;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[m.first_chunk + c] = sum;
  }
}

// The factor of each tensor, and its count set to zero.
__global__ void scale_kernel(const Moving* all, const double* partial,
                             double clip, float* scales) {
  const Moving& m = all[blockIdx.x];
  double sum = 0;
  if (clip > 0) {
    for (std::uint32_t c = threadIdx.x; c < m.chunks; c += kThreads) {
      sum += partial[m.first_chunk + c];
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  const double coefficient = clip > 0 ? clip / (sqrt(sum) + 1e-6) : 1;
  scales[blockIdx.x] = coefficient < 1 ? static_cast<float>(coefficient) : 1.0F;
  *m.task.nonfinite = 0;
}

__global__ void momentum_kernel(const Moving* all, const float* scales,
                                float factor, bool nesterov) {
  const MomentumTask& task = all[blockIdx.y].task;
  const float scale = scales[blockIdx.y];
  unsigned bad = 0;
  for (std::uint64_t i = thread_index(); i < task.n; i += thread_count()) {
    const float g = scale * task.gradient[i];
    const float old = task.momentum[i];
    const float u = nesterov ? factor * (old + g) : factor * old + g;
    const float v = task.velocity[i] + (nesterov ? u + g : u);
    if (is_bad(u) || is_bad(v)) {
      ++bad;
      continue;
    }
    task.momentum[i] = u;
    task.velocity[i] = v;
  }
  add_count(task.nonfinite, bad);
}

struct TwoBit {
  double mean;
  double step;
  float table[4];

  __device__ unsigned bin(float v) const {
    const double q = nearbyint((static_cast<double>(v) - mean) / step + 2);
    return static_cast<unsigned>(fmin(fmax(q, 0.0), 3.0));
  }
};

__device__ TwoBit two_bit_of(const float* values, std::uint64_t n) {
  TwoBit out = {};
  double sum = 0;
  for (std::uint64_t i = threadIdx.x; i < n; i += kThreads) {
    sum += static_cast<double>(values[i]);
  }
  out.mean = n == 0 ? 0 : block_sum(sum) / static_cast<double>(n);
  double squares = 0;
  for (std::uint64_t i = threadIdx.x; i < n; i += kThreads) {
    const double d = static_cast<double>(values[i]) - out.mean;
    squares += d * d;
  }
  out.step = 1.5 * sqrt(block_sum(squares) / (static_cast<double>(n) - 1));
  if (!(out.step > 0) || !isfinite(out.step)) out.step = 1;
  double sums[4] = {};
  double counts[4] = {};
  for (std::uint64_t i = threadIdx.x; i < n; i += kThreads) {
    const unsigned mine = out.bin(values[i]);
    for (unsigned b = 0; b < 4; ++b) {
      sums[b] += b == mine ? static_cast<double>(values[i]) : 0.0;
      counts[b] += b == mine ? 1.0 : 0.0;
    }
  }
  for (unsigned b = 0; b < 4; ++b) {
    const double total = block_sum(sums[b]);
    const double count = block_sum(counts[b]);
    out.table[b] = count > 0 ? static_cast<float>(total / count) : 0.0F;
  }
  return out;
}

// A block per segment.
__global__ void quantize_kernel(const std::uint32_t* indices, float* values,
                                const std::uint64_t* starts,
                                const Rounding* tasks) {
  const Rounding& task = tasks[blockIdx.x];
  if (task.form == ValueForm::kFp32) return;
  const std::uint64_t first = starts[blockIdx.x];
  const std::uint64_t n = starts[blockIdx.x + 1] - first;
  values += first;
  indices += first;
  float mean = 0;
  if (task.form == ValueForm::kOne) {
    double sum = 0;
    for (std::uint64_t i = threadIdx.x; i < n; i += kThreads) {
      sum += static_cast<double>(values[i]);
    }
    sum = block_sum(sum);
    mean = n == 0 ? 0.0F : static_cast<float>(sum / static_cast<double>(n));
  }
  TwoBit two = {};
  if (task.form == ValueForm::kTwoBit) two = two_bit_of(values, n);
  for (std::uint64_t i = threadIdx.x; i < n; i += kThreads) {
    const float x = values[i];
    float rounded = mean;
    if (task.form == ValueForm::kBf16) rounded = from_bf16(to_bf16(x));
    if (task.form == ValueForm::kFp16) rounded = from_fp16(to_fp16(x));
    if (task.form == ValueForm::kTwoBit) rounded = two.table[two.bin(x)];
    if (task.memory != nullptr)
      task.memory[indices[i] - task.base] += x - rounded;
    values[i] = rounded;
  }
}

}  // namespace

void run_fill(cudaStream_t stream, float* target, std::size_t n, float value) {
  if (n == 0) return;
  launch("to fill", stream, blocks_for(n), fill_kernel, target, n, value);
}

void run_count_nonfinite(cudaStream_t stream, const float* values,
                         std::size_t n, std::uint64_t* count) {
  check(cudaMemsetAsync(count, 0, sizeof(*count), stream), "to clear a count");
  if (n == 0) return;
  launch("to count", stream, blocks_for(n), count_kernel, values, n, count);
}

void run_pack(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
              const PackPass& pass) {
  const Places places = places_of(scratch, pass.sources, pass.residuals);
  if (places.size == 0) return;
  const Place* all = uploads.send(places.all);
  launch("to pack", stream, blocks_for(places.size), pack_kernel, all,
         static_cast<std::uint32_t>(places.all.size()), places.size,
         pass.target);
}

void run_apply(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
               const ApplyPass& pass) {
  if (pass.nonfinite != nullptr) {
    check(cudaMemsetAsync(pass.nonfinite, 0, sizeof(*pass.nonfinite), stream),
          "to clear a count");
  }
  const Places places = places_of(scratch, pass.targets, {});
  if (places.size == 0) return;
  const Place* all = uploads.send(places.all);
  const auto count = static_cast<std::uint32_t>(places.all.size());
  const auto write = [&](const float* dense, float scale,
                         std::uint64_t* nonfinite) {
    launch("to apply", stream, blocks_for(places.size), write_kernel, all,
           count, places.size, dense, scale, nonfinite);
  };
  if (pass.dense != nullptr) {
    write(pass.dense, pass.scale, pass.nonfinite);
    return;
  }
  // 16-bit tensors get the sum of all lists, rounded once.
  const bool narrow =
      std::any_of(places.all.begin(), places.all.end(),
                  [](const Place& p) { return p.view.dtype != DType::kFp32; });
  float* dense = narrow ? scratch.dense.grow<float>(places.size) : nullptr;
  if (narrow) {
    run_fill(stream, dense, places.size, 0);
  } else {
    write(nullptr, 1, nullptr);
  }
  for (const SparseView& list : pass.lists) {
    launch("to apply", stream, blocks_for(list.capacity), add_list_kernel, all,
           count, list, dense, pass.scale, pass.nonfinite);
  }
  if (narrow) write(dense, 1, nullptr);
}

void run_narrow(cudaStream_t stream, const NarrowPass& pass) {
  launch("to round to bf16", stream, blocks_for(pass.n), narrow_kernel, pass);
}

void run_widen(cudaStream_t stream, const WidenPass& pass) {
  launch("to add up bf16", stream, blocks_for(pass.n), widen_kernel, pass);
}

void run_scatter(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
                 const ScatterPass& pass) {
  const auto ranges = without_empty(scratch, pass.targets);
  if (ranges.empty()) return;
  const MemoryRange* all = uploads.send(ranges);
  for (const SparseView& list : pass.lists) {
    launch("to scatter", stream, blocks_for(list.capacity), scatter_kernel,
           list, all, static_cast<std::uint32_t>(ranges.size()), pass.op,
           pass.scale);
  }
}

void run_gather(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
                const GatherPass& pass) {
  const auto ranges = without_empty(scratch, pass.sources);
  const MemoryRange* all = uploads.send(ranges);
  launch("to gather", stream, blocks_for(pass.at.capacity), gather_kernel,
         pass.at, all, static_cast<std::uint32_t>(ranges.size()), pass.values);
}

void run_momentum(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
                  const MomentumPass& pass) {
  if (pass.tasks.empty()) return;
  std::vector<Moving>& all = scratch.moving;
  all.clear();
  std::uint32_t chunks = 0;
  std::uint32_t most_chunks = 1;
  std::uint64_t most = 1;
  for (const MomentumTask& task : pass.tasks) {
    const auto its =
        static_cast<std::uint32_t>((task.n + kNormChunk - 1) / kNormChunk);
    all.push_back({task, 0, chunks, its});
    chunks += its;
    most_chunks = std::max(most_chunks, its);
    most = std::max<std::uint64_t>(most, task.n);
  }
  const Moving* tasks = uploads.send(std::span<const Moving>(all));
  const auto count = static_cast<unsigned>(all.size());
  double* partial = scratch.partial.grow<double>(chunks + 1);
  float* scales = scratch.scales.grow<float>(count);
  if (pass.clip > 0) {
    launch("to clip", stream, dim3(std::min(most_chunks, 2048U), count),
           norm_kernel, tasks, partial);
  }
  launch("to clip", stream, count, scale_kernel, tasks, partial, pass.clip,
         scales);
  launch("to add momentum", stream, dim3(blocks_for(most), count),
         momentum_kernel, tasks, scales, pass.factor, pass.nesterov);
}

void run_quantize(cudaStream_t stream, Uploads& uploads, PassScratch& scratch,
                  const QuantizePass& pass) {
  std::vector<Rounding>& tasks = scratch.rounding;
  tasks.clear();
  bool any = false;
  for (const SegmentTask& task : pass.tasks) {
    tasks.push_back({task.memory, task.base, task.values});
    any |= task.values != ValueForm::kFp32;
  }
  if (!any) return;
  const Rounding* all = uploads.send(std::span<const Rounding>(tasks));
  launch("to round values", stream, static_cast<unsigned>(tasks.size()),
         quantize_kernel, pass.indices, pass.values, pass.starts, all);
}

}  // namespace sluice::cuda
