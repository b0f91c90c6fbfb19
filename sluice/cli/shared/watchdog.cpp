#include "sluice/cli/shared/watchdog.h"

#include <utility>

namespace sluice {

Watchdog::Watchdog(std::chrono::duration<double> limit,
                   std::function<void()> late)
    : thread_([this, limit, late = std::move(late)](std::stop_token stop) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, stop, limit, [] { return false; });
        if (!stop.stop_requested()) late();
      }) {}

}  // namespace sluice
