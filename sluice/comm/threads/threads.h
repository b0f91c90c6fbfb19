#pragma once

#include <chrono>
#include <memory>

#include "sluice/comm/communicator.h"

namespace sluice {

// Ranks as threads of one process: the test bed of every collective.
//
// The communicators share their memory; each is used by one
// thread.
std::vector<std::unique_ptr<Communicator>> make_thread_ranks(
    std::size_t size,
    std::chrono::milliseconds deadline = std::chrono::seconds(60));

}  // namespace sluice
