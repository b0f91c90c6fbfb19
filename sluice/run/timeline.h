#pragma once

#include <span>
#include <string>

#include "sluice/comm/communicator.h"
#include "sluice/sync/trace.h"

namespace sluice {

// Writes the spans of all ranks to one file that Perfetto and chrome://tracing
// open: a process per rank, with lanes for computing, selecting and the
// exchange. Ranks on the host of rank 0 share its clock; the clocks of others
// are set by a barrier. `labels` are those of the buckets. Called by all ranks;
// rank 0 writes. Throws std::runtime_error.
void write_timeline(Communicator& comm, std::uint64_t step, const Trace& trace,
                    std::span<const std::string> labels,
                    const std::string& path);

}  // namespace sluice
