#include <cuda_runtime.h>

#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sluice/backend/backend.h"
#include "sluice/backend/cuda/stream.h"
#include "sluice/core/error.h"

namespace sluice {
namespace cuda {

CudaStream::CudaStream() : handle(make_stream()), uploads(handle) {}

CudaStream::~CudaStream() {
  cudaStreamSynchronize(handle);
  cudaStreamDestroy(handle);
}

}  // namespace cuda

namespace {

using cuda::as_cuda;
using cuda::check;
using cuda::CudaStream;
using cuda::make_event;

// Things that were used and may be used again.
template <class T>
class FreeList {
 public:
  template <class Make>
  T take(Make&& make) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(++made_);  // give() must not allocate
      return make();
    }
    const T last = free_.back();
    free_.pop_back();
    return last;
  }
  void give(T thing) {
    const std::lock_guard lock(mutex_);
    free_.push_back(thing);
  }
  // Of those that are not in use.
  const std::vector<T>& all() const { return free_; }

 private:
  std::mutex mutex_;
  std::vector<T> free_;
  std::size_t made_ = 0;
};

// The events of a backend, and the memory of their states: to make an event
// costs more than to record it, and a step must not allocate.
struct EventPool {
  ~EventPool() {
    for (cudaEvent_t event : events.all()) cudaEventDestroy(event);
    for (void* memory : states.all()) ::operator delete(memory);
  }
  FreeList<cudaEvent_t> events;
  FreeList<void*> states;  // all of one size
};

// For std::allocate_shared. It holds the pool, which events may need longer
// than the backend.
template <class T>
struct StateAllocator {
  using value_type = T;

  explicit StateAllocator(std::shared_ptr<EventPool> from)
      : pool(std::move(from)) {}
  template <class U>
  explicit StateAllocator(const StateAllocator<U>& other) : pool(other.pool) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(
        pool->states.take([&] { return ::operator new(count * sizeof(T)); }));
  }
  void deallocate(T* memory, std::size_t) { pool->states.give(memory); }
  bool operator==(const StateAllocator&) const = default;

  std::shared_ptr<EventPool> pool;
};

// A point in a CUDA stream.
class CudaEvent : public Event::State {
 public:
  explicit CudaEvent(cudaEvent_t event) : event_(event) {}
  bool done() const override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    check(status, "the work before an event");
    return true;
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_;
};

class PooledEvent final : public CudaEvent {
 public:
  explicit PooledEvent(std::shared_ptr<EventPool> pool)
      : CudaEvent(pool->events.take(make_event)), pool_(std::move(pool)) {}
  ~PooledEvent() override { pool_->events.give(get()); }

 private:
  std::shared_ptr<EventPool> pool_;
};

class ForeignEvent final : public CudaEvent {
 public:
  ForeignEvent(std::shared_ptr<const void> owner, void* handle)
      : CudaEvent(static_cast<cudaEvent_t>(handle)), owner_(std::move(owner)) {}

 private:
  std::shared_ptr<const void> owner_;
};

const CudaEvent* own_event(const Event& event) {
  return dynamic_cast<const CudaEvent*>(event.state().get());
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device) : device_(device) {
    use();
    check(cudaFree(nullptr), "to start the device");
    name_ = concat("cuda:", device);
  }

  std::string_view name() const override { return name_; }
  bool is_host() const override { return false; }

  Buffer allocate(std::size_t bytes) override {
    use();
    void* data = nullptr;
    const cudaError_t status =
        cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw std::bad_alloc();
    }
    check(status, "to allocate memory");
    check(cudaMemset(data, 0, bytes), "to clear memory");
    check(cudaDeviceSynchronize(), "to clear memory");
    return {data, bytes, [](void* p, std::size_t) { cudaFree(p); }};
  }
  Buffer allocate_host(std::size_t bytes) override {
    use();
    void* data = nullptr;
    check(cudaMallocHost(&data, std::max<std::size_t>(bytes, 1)),
          "to allocate pinned memory");
    std::memset(data, 0, bytes);
    return {data, bytes, [](void* p, std::size_t) { cudaFreeHost(p); }};
  }
  std::unique_ptr<Stream> make_stream() override {
    use();
    return std::make_unique<CudaStream>();
  }
  Event record(Stream& stream) override {
    use();
    auto event = std::allocate_shared<PooledEvent>(
        StateAllocator<PooledEvent>(pool_), pool_);
    check(cudaEventRecord(event->get(), as_cuda(stream).handle),
          "to record an event");
    return Event(std::move(event));
  }
  void wait(const Event& event) override {
    use();
    if (const CudaEvent* own = own_event(event)) {
      check(cudaEventSynchronize(own->get()), "the work before an event");
      return;
    }
    while (!event.done()) std::this_thread::yield();
  }
  void wait(Stream& stream, const Event& event) override {
    use();
    if (const CudaEvent* own = own_event(event)) {
      check(cudaStreamWaitEvent(as_cuda(stream).handle, own->get()),
            "to wait for an event");
      return;
    }
    while (!event.done()) std::this_thread::yield();
  }

  void copy_in(Stream& stream, void* target,
               std::span<const std::byte> source) override {
    use();
    if (source.empty()) return;
    CudaStream& s = as_cuda(stream);
    if (source.size() <= kSmallCopy) {
      const void* staged = s.uploads.send(source);
      check(cudaMemcpyAsync(target, staged, source.size(),
                            cudaMemcpyDeviceToDevice, s.handle),
            "to copy to the device");
      return;
    }
    check(cudaMemcpyAsync(target, source.data(), source.size(),
                          cudaMemcpyHostToDevice, s.handle),
          "to copy to the device");
    // From pinned memory the copy goes on while the caller may write there.
    check(cudaStreamSynchronize(s.handle), "to copy to the device");
  }
  void copy_out(Stream& stream, std::span<std::byte> target,
                const void* source) override {
    use();
    if (target.empty()) return;
    check(cudaMemcpyAsync(target.data(), source, target.size(),
                          cudaMemcpyDeviceToHost, as_cuda(stream).handle),
          "to copy to the host");
  }

  void pack(Stream& stream, const PackPass& pass) override {
    run(stream, cuda::run_pack, pass);
  }
  void fill(Stream& stream, float* target, std::size_t n,
            float value) override {
    use();
    cuda::run_fill(as_cuda(stream).handle, target, n, value);
  }
  void count_nonfinite(Stream& stream, const float* values, std::size_t n,
                       std::uint64_t* count) override {
    use();
    cuda::run_count_nonfinite(as_cuda(stream).handle, values, n, count);
  }
  void select(Stream& stream, const SelectPass& pass) override {
    run(stream, &CudaStream::selector, pass);
  }
  void momentum(Stream& stream, const MomentumPass& pass) override {
    run(stream, cuda::run_momentum, pass);
  }
  void quantize(Stream& stream, const QuantizePass& pass) override {
    run(stream, cuda::run_quantize, pass);
  }
  void narrow(Stream& stream, const NarrowPass& pass) override {
    use();
    cuda::run_narrow(as_cuda(stream).handle, pass);
  }
  void widen(Stream& stream, const WidenPass& pass) override {
    use();
    cuda::run_widen(as_cuda(stream).handle, pass);
  }
  void scatter(Stream& stream, const ScatterPass& pass) override {
    run(stream, cuda::run_scatter, pass);
  }
  void gather(Stream& stream, const GatherPass& pass) override {
    run(stream, cuda::run_gather, pass);
  }
  void apply(Stream& stream, const ApplyPass& pass) override {
    run(stream, cuda::run_apply, pass);
  }
  void encode(Stream& stream, const EncodePass& pass) override {
    run(stream, &CudaStream::encoder, pass);
  }
  void decode(Stream& stream, const DecodePass& pass) override {
    run(stream, &CudaStream::decoder, pass);
  }

 private:
  static constexpr std::size_t kSmallCopy = std::size_t{1} << 18;

  template <class Pass>
  void run(Stream& stream,
           void (*enqueue)(cudaStream_t, cuda::Uploads&, cuda::PassScratch&,
                           const Pass&),
           const Pass& pass) {
    use();
    CudaStream& s = as_cuda(stream);
    enqueue(s.handle, s.uploads, s.scratch, pass);
  }
  template <class Runner, class Pass>
  void run(Stream& stream, Runner CudaStream::*runner, const Pass& pass) {
    use();
    CudaStream& s = as_cuda(stream);
    (s.*runner).run(s.handle, s.uploads, pass);
  }

  // The device of the calling thread; cheap where it is this one already.
  void use() const { check(cudaSetDevice(device_), "to use the device"); }

  int device_;
  std::string name_;
  std::shared_ptr<EventPool> pool_ = std::make_shared<EventPool>();
};

}  // namespace

Event cuda_event(std::shared_ptr<const void> owner, void* handle) {
  return Event(std::make_shared<ForeignEvent>(std::move(owner), handle));
}

namespace {

std::string version_text(int version) {
  return concat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace

std::string cuda_version() { return version_text(CUDART_VERSION); }

std::string cuda_name(int device) {
  cudaDeviceProp properties = {};
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  return properties.name;
}

std::string cuda_problem(int device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0;  // stays 0 where there is none
    cudaDriverGetVersion(&driver);
    cudaGetLastError();
    if (driver == 0) {
      return "[cuda] there is no GPU to use: this machine has no NVIDIA driver";
    }
    return concat("[cuda] the driver must be of CUDA ", cuda_version(),
                  " or later, but is of ", version_text(driver),
                  "; update it, or build with an older CUDA");
  }
  if (status != cudaSuccess) {
    cudaGetLastError();
    return concat("[cuda] there is no GPU to use: ", cudaGetErrorString(status),
                  "; nvidia-smi shows what the driver sees");
  }
  if (device < 0 || device >= count) {
    return concat("[cuda] device must be below ", count,
                  ", the GPUs that this process sees, got ", device);
  }
  int major = 0;
  const cudaError_t asked =
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (asked != cudaSuccess || major < 8) {
    return concat("[cuda] GPU ", device,
                  " must be of compute capability 8.0 (A100) or later, got ",
                  major, ".x");
  }
  return {};
}

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  const std::string problem = cuda_problem(options.device);
  if (!problem.empty()) throw std::runtime_error(problem);
  return std::make_unique<CudaBackend>(options.device);
}

}  // namespace sluice
