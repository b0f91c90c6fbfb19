#include <algorithm>
#include <stdexcept>
#include <string>

#include "sluice/backend/cuda/runtime.h"

namespace sluice::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string("[cuda] ") + what +
                           " failed: " + cudaGetErrorString(status));
}

unsigned fitting_blocks(const void* kernel) {
  int device = 0;
  int processors = 0;
  int each = 0;
  check(cudaGetDevice(&device), "to ask for the device");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                               device),
        "to ask for the processors");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &each, kernel, static_cast<int>(kThreads), 0),
        "to ask for the occupancy");
  return static_cast<unsigned>(processors * std::max(each, 1));
}

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
        "to make a stream");
  return stream;
}

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
        "to make an event");
  return event;
}

SideStreams::SideStreams() : forked_(make_event()) {
  for (std::size_t i = 0; i < kSides; ++i) {
    sides_[i] = make_stream();
    joined_[i] = make_event();
  }
}

SideStreams::~SideStreams() {
  cudaEventDestroy(forked_);
  for (std::size_t i = 0; i < kSides; ++i) {
    cudaStreamDestroy(sides_[i]);
    cudaEventDestroy(joined_[i]);
  }
}

void SideStreams::fork(cudaStream_t stream) {
  stream_ = stream;
  check(cudaEventRecord(forked_, stream), "to record an event");
  for (const cudaStream_t side : sides_) {
    check(cudaStreamWaitEvent(side, forked_), "to wait for an event");
  }
}

cudaStream_t SideStreams::lane(std::size_t i) const {
  i %= kSides + 1;
  return i == 0 ? stream_ : sides_[i - 1];
}

void SideStreams::join() {
  for (std::size_t i = 0; i < kSides; ++i) {
    check(cudaEventRecord(joined_[i], sides_[i]), "to record an event");
    check(cudaStreamWaitEvent(stream_, joined_[i]), "to wait for an event");
  }
}

Scratch::~Scratch() { cudaFree(data_); }

void Scratch::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  // Frees after all work that may still use it: cudaFree waits.
  check(cudaFree(data_), "to free memory");
  data_ = nullptr;
  bytes_ = 0;
  const std::size_t room = bytes + bytes / 8;
  check(cudaMalloc(&data_, room), "to allocate scratch memory");
  check(cudaMemset(data_, 0, room), "to clear memory");
  check(cudaDeviceSynchronize(), "to clear memory");
  bytes_ = room;
}

Uploads::~Uploads() {
  cudaFreeHost(host_);
  cudaFree(device_);
  for (cudaEvent_t event : left_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
}

void Uploads::grow(std::size_t bytes) {
  check(cudaStreamSynchronize(stream_), "to wait for a stream");
  check(cudaFreeHost(host_), "to free memory");
  check(cudaFree(device_), "to free memory");
  host_ = nullptr;
  device_ = nullptr;
  half_ = std::max(kHalf, 2 * bytes);
  check(cudaMallocHost(&host_, 2 * half_), "to allocate pinned memory");
  check(cudaMalloc(&device_, 2 * half_), "to allocate memory");
  for (cudaEvent_t& event : left_) {
    if (event == nullptr) event = make_event();
  }
  at_ = 0;
  current_ = 0;
}

void Uploads::make_room(std::size_t bytes) {
  if (bytes > half_) {
    grow(bytes);
    return;
  }
  if (at_ + bytes <= half_) return;
  at_ = 0;
  check(cudaEventRecord(left_[current_], stream_), "to record an event");
  current_ = 1 - current_;
  check(cudaEventSynchronize(left_[current_]), "to wait for an event");
}

// Anywhere: each replay writes there before it reads, in the order of the
// stream, and so does everything else that it runs between. Copies from the
// host's half, which may be under way, are not touched.
std::size_t Uploads::room_in_graph(std::size_t bytes) {
  if (bytes > half_) {
    throw std::runtime_error(
        "[cuda] a pass must have run before it is captured: memory cannot grow "
        "meanwhile");
  }
  if (graph_at_ + bytes > half_) graph_at_ = 0;
  const std::size_t at = graph_at_;
  graph_at_ += bytes;
  return at;
}

bool Uploads::is_captured() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &status), "to ask for a capture");
  return status != cudaStreamCaptureStatusNone;
}

namespace {

// Bytes in the arguments of a kernel, which a graph keeps: what a copy would
// read later is no longer there.
struct Brought {
  std::byte bytes[4000];
};
__global__ void bring_kernel(std::byte* to, unsigned count,
                             const __grid_constant__ Brought from) {
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    to[i] = from.bytes[i];
  }
}

void bring(cudaStream_t stream, std::byte* to,
           std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    Brought some;
    const std::size_t count = std::min(bytes.size(), sizeof(some.bytes));
    std::memcpy(some.bytes, bytes.data(), count);
    launch("to bring arguments", stream, 1, bring_kernel, to,
           static_cast<unsigned>(count), some);
    bytes = bytes.subspan(count);
    to += count;
  }
}

}  // namespace

void Uploads::copy(std::span<const Part> parts, std::span<std::byte*> places) {
  constexpr std::size_t kAlign = 256;
  const auto room = [](const Part& part) {
    return (part.bytes + kAlign - 1) / kAlign * kAlign;
  };
  std::size_t bytes = 0;
  for (const Part& part : parts) bytes += room(part);
  const bool captured = is_captured();
  std::size_t begin = 0;
  if (captured) {
    begin = room_in_graph(bytes);
  } else {
    make_room(std::max(bytes, kAlign));
    begin = static_cast<std::size_t>(current_) * half_ + at_;
    at_ += bytes;
  }
  std::size_t at = begin;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    places[i] = device_ + at;
    const auto* source = static_cast<const std::byte*>(parts[i].source);
    if (captured) {
      bring(stream_, places[i], {source, parts[i].bytes});
    } else if (parts[i].bytes > 0) {
      std::memcpy(host_ + at, source, parts[i].bytes);
    }
    at += room(parts[i]);
  }
  if (captured || bytes == 0) return;
  check(cudaMemcpyAsync(device_ + begin, host_ + begin, bytes,
                        cudaMemcpyHostToDevice, stream_),
        "to copy arguments");
}

}  // namespace sluice::cuda
