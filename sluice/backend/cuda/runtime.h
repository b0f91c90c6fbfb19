#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <tuple>

// What the CUDA backend needs of the CUDA runtime: errors as exceptions, memory
// that grows, and small arguments on their way to the device.

namespace sluice::cuda {

// Throws std::runtime_error: what was tried, and what the runtime says.
void check(cudaError_t status, const char* what);

// Of a block, in every kernel.
inline constexpr unsigned kThreads = 256;

// Enqueues a kernel; `what` is for check().
template <class... Params, class... Args>
void launch(const char* what, cudaStream_t stream, dim3 blocks,
            void (*kernel)(Params...), const Args&... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, args...), what);
}

// One whose blocks may wait for each other: all of them must fit the device.
template <class Args>
void launch_together(const char* what, cudaStream_t stream, dim3 blocks,
                     void (*kernel)(Args), const Args& args) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, args), what);
}

// One that waits for no other, and an event that takes no time.
cudaStream_t make_stream();
cudaEvent_t make_event();

// As many blocks of a kernel as the device runs at once.
unsigned fitting_blocks(const void* kernel);

// Streams beside one, for kernels that fill the device only together: between
// fork() and join() what lane(i) is given runs side by side, and what the
// stream is given later behind all of it.
class SideStreams {
 public:
  SideStreams();
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;
  ~SideStreams();

  void fork(cudaStream_t stream);
  cudaStream_t lane(std::size_t i) const;
  void join();

 private:
  static constexpr std::size_t kSides = 3;
  cudaStream_t stream_ = nullptr;
  cudaStream_t sides_[kSides] = {};
  cudaEvent_t forked_ = nullptr;
  cudaEvent_t joined_[kSides] = {};
};

// Device memory of a stream that keeps its size from pass to pass. New memory
// is zeroed; what was there is lost when it grows.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  template <class T>
  T* grow(std::size_t count) {
    reserve(count * sizeof(T));
    return static_cast<T*>(data_);
  }

 private:
  void reserve(std::size_t bytes);

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Copies of host arrays for the passes of one stream: through pinned memory, so
// that the host goes on at once. What it returns stays until kHalf bytes later,
// by when the device has long passed; it waits if not. While the stream is
// captured, they are part of the graph, which brings them anew each time.
class Uploads {
 public:
  explicit Uploads(cudaStream_t stream) : stream_(stream) {}
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;
  ~Uploads();

  template <class T>
  const T* send(std::span<const T> values) {
    return std::get<0>(send_together(values));
  }

  // Several by one copy, which takes microseconds however short it is.
  template <class... T>
  std::tuple<const T*...> send_together(std::span<const T>... values) {
    static_assert((std::is_trivially_copyable_v<T> && ...));
    const std::array parts = {Part{values.data(), values.size_bytes()}...};
    std::array<std::byte*, parts.size()> places;
    copy(parts, places);
    return std::apply(
        [](auto*... at) -> std::tuple<const T*...> {
          return {reinterpret_cast<const T*>(at)...};
        },
        places);
  }

  struct Part {
    const void* source;
    std::size_t bytes;
  };
  // places: where they are on the device.
  void copy(std::span<const Part> parts, std::span<std::byte*> places);

 private:
  static constexpr std::size_t kHalf = std::size_t{1} << 21;
  void make_room(std::size_t bytes);
  void grow(std::size_t bytes);
  // Where so many bytes go of the graph that the stream is captured for.
  std::size_t room_in_graph(std::size_t bytes);
  bool is_captured() const;

  cudaStream_t stream_;
  std::size_t half_ = 0;  // bytes of each half
  std::size_t at_ = 0;
  std::size_t graph_at_ = 0;
  int current_ = 0;
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
  cudaEvent_t left_[2] = {};  // when the device is done with a half
};

}  // namespace sluice::cuda
