#pragma once

#include <memory>
#include <string_view>

#include "sluice/collective/sparse_allreduce.h"
#include "sluice/comm/communicator.h"

namespace sluice {

// Every rank gets every rank's entries and adds them in rank order: the exact
// sum of what was selected. One exchange, (P - 1) k entries received.
std::unique_ptr<SparseAllreduce> make_allgather(
    Backend& backend, Communicator& communicator,
    std::string_view codec = "auto");

}  // namespace sluice
