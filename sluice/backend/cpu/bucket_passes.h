#pragma once

#include <vector>

#include "sluice/backend/cpu/kernels.h"
#include "sluice/backend/cpu/thread_pool.h"
#include "sluice/backend/pass.h"

// The passes over a bucket's memory that select nothing.

namespace sluice::cpu {

// `partial` is scratch.
void run_momentum(const MomentumPass& pass, ThreadPool& pool,
                  std::vector<double>& partial);
// `rounded` is scratch.
void run_quantize(const QuantizePass& pass, std::vector<float>& rounded);
void run_narrow(const NarrowPass& pass, ThreadPool& pool);
void run_widen(const WidenPass& pass, ThreadPool& pool);
void run_scatter(const ScatterPass& pass);
void run_gather(const GatherPass& pass);
void run_pack(const PackPass& pass, ThreadPool& pool);
std::uint64_t count_nonfinite(const Kernels& kernels, const float* values,
                              std::size_t n, ThreadPool& pool);
void run_apply(const Kernels& kernels, const ApplyPass& pass, ThreadPool& pool);

// Rounds values to what `form` can carry, in place.
void quantize_values(ValueForm form, std::span<float> values);

// Elements [begin, end) of the view, whatever its strides and type, in the
// order of their indices.
void read_view(const TensorView& view, std::size_t begin, std::size_t end,
               float* out);
void write_view(const TensorView& view, std::size_t begin, std::size_t end,
                const float* in);

// Calls f(begin, end) for the parts of [0, n), by several threads.
template <class F>
void for_chunks(ThreadPool& pool, std::size_t n, F&& f) {
  constexpr std::size_t kChunk = 1U << 16;
  pool.run((n + kChunk - 1) / kChunk, [&](std::size_t c) {
    f(c * kChunk, n < (c + 1) * kChunk ? n : (c + 1) * kChunk);
  });
}

}  // namespace sluice::cpu
