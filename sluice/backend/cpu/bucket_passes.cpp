#include "sluice/backend/cpu/bucket_passes.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "sluice/core/half.h"
#include "sluice/core/key.h"

namespace sluice::cpu {
namespace {

// Small enough to stay in a core's cache while every list adds to it: the lists
// one after another would each walk through all of memory.
constexpr std::size_t kBlock = 1U << 14;

std::uint32_t not_finite(float x) {
  return magnitude_key(x) >= kInfKey ? 1U : 0U;
}

// The first entry of [from, count) at or behind `index`.
std::size_t find(const SparseView& list, std::size_t from,
                 std::uint64_t index) {
  const std::uint32_t* end = list.indices + *list.count;
  return static_cast<std::size_t>(
      std::lower_bound(list.indices + from, end, index) - list.indices);
}

// Calls f(range, first, last) for the entries of every range that has memory.
template <class F>
void for_ranges(const SparseView& list, std::span<const MemoryRange> ranges,
                F&& f) {
  std::size_t at = 0;
  for (const MemoryRange& range : ranges) {
    const std::size_t first = find(list, at, range.base);
    at = find(list, first, range.base + range.size);
    if (range.data != nullptr) f(range, first, at);
  }
}

double norm_of(const float* values, std::size_t n, ThreadPool& pool,
               std::vector<double>& partial) {
  constexpr std::size_t kChunk = 1U << 16;
  partial.assign((n + kChunk - 1) / kChunk, 0);
  for_chunks(pool, n, [&](std::size_t begin, std::size_t end) {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto v = static_cast<double>(values[i]);
      sum += std::isfinite(v) ? v * v : 0;
    }
    partial[begin / kChunk] = sum;
  });
  double total = 0;
  for (const double part : partial) total += part;
  return std::sqrt(total);
}

std::uint64_t accumulate_momentum(const MomentumTask& task,
                                  const MomentumPass& pass, float scale,
                                  std::size_t begin, std::size_t end) {
  std::uint64_t bad = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const float g = scale * task.gradient[i];
    const float u = pass.nesterov ? pass.factor * (task.momentum[i] + g)
                                  : pass.factor * task.momentum[i] + g;
    const float v = task.velocity[i] + (pass.nesterov ? u + g : u);
    const bool finite = std::isfinite(u) && std::isfinite(v);
    task.momentum[i] = finite ? u : task.momentum[i];
    task.velocity[i] = finite ? v : task.velocity[i];
    bad += finite ? 0 : 1;
  }
  return bad;
}

// The elements [at, at + out.size()) of the bucket.
std::uint64_t add_lists(const ApplyPass& pass, std::uint64_t at,
                        std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
  std::uint64_t bad = 0;
  for (const SparseView& list : pass.lists) {
    const std::size_t first = find(list, 0, at);
    const std::size_t last = find(list, first, at + out.size());
    for (std::size_t i = first; i < last; ++i) {
      float& target = out[list.indices[i] - at];
      target += pass.scale * list.values[i];
      bad += not_finite(target);
    }
  }
  return bad;
}

// Elements [begin, end) of a tensor that starts at `base` of the bucket.
std::uint64_t apply_part(const Kernels& kernels, const ApplyPass& pass,
                         const TensorView& target, std::uint64_t base,
                         std::size_t begin, std::size_t end) {
  const bool plain = is_plain(target);
  float buffer[kBlock];
  std::uint64_t bad = 0;
  for (std::size_t i = begin; i < end; i += kBlock) {
    const std::size_t size = std::min(kBlock, end - i);
    float* to = plain ? static_cast<float*>(target.data) + i : buffer;
    bad += pass.dense != nullptr
               ? kernels.scale(pass.dense + base + i, pass.scale, to, size)
               : add_lists(pass, base + i, {to, size});
    if (!plain) write_view(target, i, i + size, buffer);
  }
  return bad;
}

}  // namespace

void run_momentum(const MomentumPass& pass, ThreadPool& pool,
                  std::vector<double>& partial) {
  for (const MomentumTask& task : pass.tasks) {
    float scale = 1;
    if (pass.clip > 0) {
      const double coefficient =
          pass.clip / (norm_of(task.gradient, task.n, pool, partial) + 1e-6);
      if (coefficient < 1) scale = static_cast<float>(coefficient);
    }
    std::atomic<std::uint64_t> nonfinite{0};
    for_chunks(pool, task.n, [&](std::size_t begin, std::size_t end) {
      nonfinite.fetch_add(accumulate_momentum(task, pass, scale, begin, end),
                          std::memory_order_relaxed);
    });
    *task.nonfinite = nonfinite.load(std::memory_order_relaxed);
  }
}

void run_scatter(const ScatterPass& pass) {
  for (const SparseView& list : pass.lists) {
    for_ranges(
        list, pass.targets,
        [&](const MemoryRange& range, std::size_t first, std::size_t last) {
          for (std::size_t i = first; i < last; ++i) {
            float& target = range.data[list.indices[i] - range.base];
            target = pass.op == ScatterOp::kZero
                         ? 0.0F
                         : target + pass.scale * list.values[i];
          }
        });
  }
}

void run_gather(const GatherPass& pass) {
  // Each entry waits for memory of its own; those ahead may be on their way.
  constexpr std::size_t kAhead = 16;
  std::fill_n(pass.values, *pass.at.count, 0.0F);
  for_ranges(
      pass.at, pass.sources,
      [&](const MemoryRange& range, std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) {
          const std::size_t ahead = std::min(i + kAhead, last - 1);
          __builtin_prefetch(range.data +
                             (pass.at.indices[ahead] - range.base));
          pass.values[i] = range.data[pass.at.indices[i] - range.base];
        }
      });
}

void run_pack(const PackPass& pass, ThreadPool& pool) {
  float* out = pass.target;
  for (std::size_t s = 0; s < pass.sources.size(); ++s) {
    const TensorView& source = pass.sources[s];
    const float* residual =
        pass.residuals.empty() ? nullptr : pass.residuals[s].data;
    const std::size_t n = source.size();
    for_chunks(pool, n, [&](std::size_t begin, std::size_t end) {
      read_view(source, begin, end, out + begin);
      if (residual == nullptr) return;
      for (std::size_t i = begin; i < end; ++i) out[i] += residual[i];
    });
    out += n;
  }
}

void run_narrow(const NarrowPass& pass, ThreadPool& pool) {
  for_chunks(pool, pass.n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const float x = pass.values[i];
      pass.words[i] = to_bf16(x);
      pass.remainders[i] = x - from_bf16(pass.words[i]);
    }
  });
}

void run_widen(const WidenPass& pass, ThreadPool& pool) {
  const auto value = [&](std::size_t slot, std::size_t i) {
    return pass.own != nullptr && slot == pass.own_slot
               ? pass.own[i]
               : from_bf16(pass.words[slot * pass.stride + i]);
  };
  for_chunks(pool, pass.n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      float sum = value(0, i);
      for (std::size_t s = 1; s < pass.slots; ++s) sum += value(s, i);
      pass.out[i] = sum;
    }
  });
}

std::uint64_t count_nonfinite(const Kernels& kernels, const float* values,
                              std::size_t n, ThreadPool& pool) {
  std::atomic<std::uint64_t> total{0};
  for_chunks(pool, n, [&](std::size_t begin, std::size_t end) {
    total.fetch_add(kernels.count_ge(values + begin, end - begin, kInfKey),
                    std::memory_order_relaxed);
  });
  return total.load(std::memory_order_relaxed);
}

void run_apply(const Kernels& kernels, const ApplyPass& pass,
               ThreadPool& pool) {
  std::atomic<std::uint64_t> nonfinite{0};
  std::uint64_t base = 0;
  for (const TensorView& target : pass.targets) {
    const std::size_t n = target.size();
    for_chunks(pool, n, [&](std::size_t begin, std::size_t end) {
      nonfinite.fetch_add(apply_part(kernels, pass, target, base, begin, end),
                          std::memory_order_relaxed);
    });
    base += n;
  }
  if (pass.nonfinite != nullptr) {
    *pass.nonfinite = nonfinite.load(std::memory_order_relaxed);
  }
}

}  // namespace sluice::cpu
