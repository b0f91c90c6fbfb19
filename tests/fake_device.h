#pragma once

#include <atomic>
#include <cstdint>
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

}  // namespace sluice::testing
