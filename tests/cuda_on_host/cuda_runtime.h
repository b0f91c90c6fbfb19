#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

// Stands in for CUDA where there is no GPU, so that the kernels' logic is
// tested on every machine: the same sources, compiled for the host, each thread
// of a block a fiber. What the threads of a warp or a block do together happens
// once all of them are there; threads that wait at different places are an
// error. Streams run at once. It shows nothing of speed, of memory that is not
// yet visible, or of work that overlaps.

#define __device__
#define __host__
#define __global__
#define __shared__ static thread_local
#define __forceinline__ inline
// Not an attribute: the standard library's headers have it inside of one.
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__

#define CUDART_VERSION 13000

struct dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
  constexpr dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1)
      : x(x_), y(y_), z(z_) {}
  constexpr dim3() = default;
};

struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace sluice::cuda_on_host {

enum class Together : int { kNone, kWarp, kBlock, kGrid, kDone };

// Returns once all of them have come to the same place. `kind` tells places
// apart.
void meet(Together whom, int kind);

// A slot per lane that the others may read after meet(): two in turn, since a
// lane may come to its next use before all have read.
struct Lanes {
  alignas(16) std::byte slots[32][16];
  std::uint32_t there = 0;  // lanes that have not ended
};
Lanes& lanes();
unsigned lane();

template <class T>
T& slot(Lanes& all, unsigned i) {
  static_assert(sizeof(T) <= 16 && std::is_trivially_copyable_v<T>);
  return *reinterpret_cast<T*>(all.slots[i]);
}

// What f makes of the values of all lanes.
template <class T, class F>
auto share(int kind, unsigned mask, T mine, F&& f) {
  if (mask != 0xffffffffU) std::abort();  // nobody needs another one yet
  Lanes& all = lanes();
  slot<T>(all, lane()) = mine;
  meet(Together::kWarp, kind);
  return f(all);
}

struct Launch {
  dim3 grid;
  dim3 block;
  bool together = false;  // blocks may wait for each other
};
void run(const Launch& launch, const std::function<void()>& kernel);

// Memory whose end is guarded, filled with what is no use to anybody.
void* allocate(std::size_t bytes);
void release(void* memory);

}  // namespace sluice::cuda_on_host

// Of the thread that runs.
extern thread_local dim3 threadIdx;
extern thread_local dim3 blockIdx;
extern thread_local dim3 blockDim;
extern thread_local dim3 gridDim;

using std::isfinite;

inline void __syncthreads() {
  using namespace sluice::cuda_on_host;
  meet(Together::kBlock, 0);
}
inline void __syncwarp(unsigned = ~0U) {
  using namespace sluice::cuda_on_host;
  meet(Together::kWarp, 0);
}

template <class T>
T __shfl_sync(unsigned mask, T x, int from) {
  using namespace sluice::cuda_on_host;
  return share(1, mask, x, [&](Lanes& all) {
    return slot<T>(all, static_cast<unsigned>(from) & 31U);
  });
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, unsigned by) {
  using namespace sluice::cuda_on_host;
  return share(2, mask, x, [&](Lanes& all) {
    return lane() >= by ? slot<T>(all, lane() - by) : x;
  });
}
template <class T>
T __shfl_down_sync(unsigned mask, T x, unsigned by) {
  using namespace sluice::cuda_on_host;
  return share(3, mask, x, [&](Lanes& all) {
    return lane() + by < 32 ? slot<T>(all, lane() + by) : x;
  });
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int by) {
  using namespace sluice::cuda_on_host;
  return share(4, mask, x, [&](Lanes& all) {
    return slot<T>(all, lane() ^ static_cast<unsigned>(by));
  });
}
inline unsigned __ballot_sync(unsigned mask, bool x) {
  using namespace sluice::cuda_on_host;
  return share(5, mask, x, [](Lanes& all) {
    unsigned bits = 0;
    for (unsigned i = 0; i < 32; ++i) {
      if ((all.there >> i & 1U) != 0 && slot<bool>(all, i)) bits |= 1U << i;
    }
    return bits;
  });
}
inline bool __any_sync(unsigned mask, bool x) {
  return __ballot_sync(mask, x) != 0;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T x) {
  using namespace sluice::cuda_on_host;
  return share(6, mask, x, [&](Lanes& all) {
    unsigned bits = 0;
    for (unsigned i = 0; i < 32; ++i) {
      if ((all.there >> i & 1U) != 0 && slot<T>(all, i) == x) bits |= 1U << i;
    }
    return bits;
  });
}
template <class F>
unsigned reduce_lanes(int kind, unsigned mask, unsigned x, F&& f) {
  using namespace sluice::cuda_on_host;
  return share(kind, mask, x, [&](Lanes& all) {
    unsigned out = 0;
    for (unsigned i = 0; i < 32; ++i) {
      if ((all.there >> i & 1U) != 0) out = f(out, slot<unsigned>(all, i));
    }
    return out;
  });
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned x) {
  return reduce_lanes(7, mask, x, [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned x) {
  return reduce_lanes(8, mask, x,
                      [](unsigned a, unsigned b) { return std::max(a, b); });
}

inline unsigned __reduce_or_sync(unsigned mask, unsigned x) {
  return reduce_lanes(9, mask, x, [](unsigned a, unsigned b) { return a | b; });
}

inline void __threadfence() {}
template <class T>
T __ldcg(const T* at) {
  return *at;
}

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(unsigned x) { return x == 0 ? 0 : std::countr_zero(x) + 1; }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }

template <class T>
T atomicAdd(T* to, T x) {
  return std::atomic_ref<T>(*to).fetch_add(x);
}
template <class T>
T atomicOr(T* to, T x) {
  return std::atomic_ref<T>(*to).fetch_or(x);
}
template <class T>
T atomicAnd(T* to, T x) {
  return std::atomic_ref<T>(*to).fetch_and(x);
}

template <class T>
T atomicMin(T* to, T x) {
  const std::atomic_ref<T> at(*to);
  T old = at.load();
  while (x < old && !at.compare_exchange_weak(old, x)) {
  }
  return old;
}

// Of the runtime's functions, what the backend calls.

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNotReady = 600
};
inline const char* cudaGetErrorString(cudaError_t) { return "no memory"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

using cudaStream_t = struct CudaOnHostStream*;
using cudaEvent_t = struct CudaOnHostEvent*;
enum : unsigned { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrComputeCapabilityMajor
};

template <class T>
cudaError_t cudaMalloc(T** out, std::size_t bytes) {
  *out = static_cast<T*>(sluice::cuda_on_host::allocate(bytes));
  return *out == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
template <class T>
cudaError_t cudaMallocHost(T** out, std::size_t bytes) {
  return cudaMalloc(out, bytes);
}
inline cudaError_t cudaFree(void* memory) {
  sluice::cuda_on_host::release(memory);
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
inline cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}

// What a thread captures, instead of running it.
using cudaGraph_t = std::vector<std::function<void()>>*;
using cudaGraphExec_t = cudaGraph_t;
inline thread_local cudaGraph_t cuda_on_host_capture = nullptr;

template <class Work>
cudaError_t enqueue_on_host(Work&& work) {
  if (cuda_on_host_capture != nullptr) {
    cuda_on_host_capture->push_back(work);
  } else {
    work();
  }
  return cudaSuccess;
}

enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive
};
inline cudaError_t cudaStreamIsCapturing(cudaStream_t,
                                         cudaStreamCaptureStatus* status) {
  *status = cuda_on_host_capture != nullptr ? cudaStreamCaptureStatusActive
                                            : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  cuda_on_host_capture = new std::vector<std::function<void()>>;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = std::exchange(cuda_on_host_capture, nullptr);
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph,
                                        unsigned long long) {
  *out = graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  for (const std::function<void()>& work : *graph) work();
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes,
                                   cudaStream_t) {
  return enqueue_on_host([=] { cudaMemset(to, value, bytes); });
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from,
                                   std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t) {
  return enqueue_on_host([=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
struct cudaDeviceProp {
  char name[256];
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "the host");
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what,
                                          int) {
  *value = what == cudaDevAttrMultiProcessorCount ? 2 : 9;
  return cudaSuccess;
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F, int,
                                                          std::size_t) {
  *blocks = 1;
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(1);
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t,
                                       unsigned = 0) {
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(1);
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }

enum cudaLaunchAttributeID { cudaLaunchAttributeCooperative };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int cooperative;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};
template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Params...), Args&&... args) {
  const bool together =
      config->numAttrs > 0 && config->attrs[0].val.cooperative != 0;
  return enqueue_on_host([kernel, together, grid = config->gridDim,
                          block = config->blockDim,
                          ... copies = std::decay_t<Args>(args)] {
    sluice::cuda_on_host::run({grid, block, together},
                              [&] { kernel(copies...); });
  });
}
