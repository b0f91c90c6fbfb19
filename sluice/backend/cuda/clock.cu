#include <algorithm>

#include "sluice/backend/clock.h"
#include "sluice/backend/cuda/stream.h"

namespace sluice {
namespace {

using cuda::check;

// Keeps the device busy while the host enqueues what is to be timed.
__global__ void spin_kernel(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

__device__ void add(float4& r, const float4& g) {
  const float4 x = r;
  r = make_float4(x.x + g.x, x.y + g.y, x.z + g.z, x.w + g.w);
}

__global__ void add_once_kernel(float4* r, const float4* g, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) add(r[i], g[i]);
}

__global__ void add_loop_kernel(float4* r, const float4* g, std::size_t n) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < n; i += std::size_t{gridDim.x} * blockDim.x) {
    add(r[i], g[i]);
  }
}

class CudaClock final : public Clock {
 public:
  CudaClock() {
    check(cudaEventCreate(&start_), "to make an event");
    check(cudaEventCreate(&stop_), "to make an event");
    check(cudaMalloc(&flush_, kFlush), "to allocate memory");
  }
  ~CudaClock() override {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
    cudaFree(flush_);
  }

  double time(Stream& stream, const std::function<void()>& enqueue) override {
    const cudaStream_t handle = cuda::as_cuda(stream).handle;
    check(cudaMemsetAsync(flush_, 1, kFlush, handle), "to flush the cache");
    cuda::launch("to wait", handle, 1, spin_kernel, 1'000'000LL);
    check(cudaEventRecord(start_, handle), "to record an event");
    enqueue();
    check(cudaEventRecord(stop_, handle), "to record an event");
    check(cudaEventSynchronize(stop_), "what is timed");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start_, stop_), "to read the time");
    return 1e-3 * static_cast<double>(ms);
  }

  double floor(Stream& stream, float* r, const float* g,
               std::size_t n) override {
    if (best_ < 0) {
      double fastest = 1e30;
      for (int kind = 0; kind < 2; ++kind) {
        pass(kind, stream, r, g, n);
        const double seconds =
            std::min(pass(kind, stream, r, g, n), pass(kind, stream, r, g, n));
        if (seconds >= fastest) continue;
        fastest = seconds;
        best_ = kind;
      }
    }
    return pass(best_, stream, r, g, n);
  }

 private:
  static constexpr std::size_t kFlush = std::size_t{256} << 20;

  double pass(int kind, Stream& stream, float* r, const float* g,
              std::size_t n) {
    const std::size_t quads = n / 4;
    const auto blocks = static_cast<unsigned>(
        (quads + cuda::kThreads - 1) / cuda::kThreads + 1);
    const cudaStream_t handle = cuda::as_cuda(stream).handle;
    return time(stream, [&] {
      auto* to = reinterpret_cast<float4*>(r);
      const auto* from = reinterpret_cast<const float4*>(g);
      if (kind == 0) {
        cuda::launch("the floor", handle, blocks, add_once_kernel, to, from,
                     quads);
      } else {
        cuda::launch("the floor", handle, std::min(blocks, 132U * 16U),
                     add_loop_kernel, to, from, quads);
      }
    });
  }

  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
  void* flush_ = nullptr;
  int best_ = -1;
};

}  // namespace

std::unique_ptr<Clock> make_cuda_clock() {
  return std::make_unique<CudaClock>();
}

}  // namespace sluice
