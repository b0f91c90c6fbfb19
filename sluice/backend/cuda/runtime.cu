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

void Uploads::make_room(std::size_t bytes) {
  if (bytes > half_) {
    check(cudaStreamSynchronize(stream_), "to wait for a stream");
    check(cudaFreeHost(host_), "to free memory");
    check(cudaFree(device_), "to free memory");
    host_ = nullptr;
    device_ = nullptr;
    half_ = std::max(kHalf, 2 * bytes);
    check(cudaMallocHost(&host_, 2 * half_), "to allocate pinned memory");
    check(cudaMalloc(&device_, 2 * half_), "to allocate memory");
    for (cudaEvent_t& event : left_) {
      if (event == nullptr) {
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
              "to make an event");
      }
    }
    at_ = 0;
    current_ = 0;
    return;
  }
  if (at_ + bytes <= half_) return;
  check(cudaEventRecord(left_[current_], stream_), "to record an event");
  current_ = 1 - current_;
  at_ = 0;
  check(cudaEventSynchronize(left_[current_]), "to wait for an event");
}

void* Uploads::copy(const void* source, std::size_t bytes) {
  constexpr std::size_t kAlign = 256;
  const std::size_t room = (bytes + kAlign - 1) / kAlign * kAlign;
  make_room(std::max(room, kAlign));
  const std::size_t at = static_cast<std::size_t>(current_) * half_ + at_;
  at_ += room;
  if (bytes == 0) return device_ + at;
  std::memcpy(host_ + at, source, bytes);
  check(cudaMemcpyAsync(device_ + at, host_ + at, bytes, cudaMemcpyHostToDevice,
                        stream_),
        "to copy arguments");
  return device_ + at;
}

}  // namespace sluice::cuda
