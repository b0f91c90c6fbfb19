#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "sluice/backend/backend.h"

namespace sluice::testing {

// What a fake device was asked for, for tests of who waits for it.
struct FakeDeviceLog {
  std::atomic<std::uint64_t> waits{0};  // of the host, for work not yet done
  std::atomic<std::uint64_t> bytes_out{0};
};

// A device made of host memory, for tests. Its addresses are never readable and
// its work runs only when the host waits for an event, so a hidden host access
// crashes, on whichever thread and whatever another one does; memory of the
// host that is passed as the device's is refused; and a forgotten wait reads
// stale counts. `log`, if any, must outlive it.
std::unique_ptr<Backend> make_fake_device_backend(
    const CpuOptions& options = {}, FakeDeviceLog* log = nullptr);

// Work of the host in a stream of such a device, for what stands in for other
// parts of a device: runs when the device comes to it, with two places of the
// device's memory where it can be touched. False if the backend is no such
// device.
using FakeWork = std::function<void(const std::byte* in, std::byte* out)>;
bool enqueue_fake_work(Backend& backend, Stream& stream, const void* in,
                       void* out, FakeWork work);

}  // namespace sluice::testing
