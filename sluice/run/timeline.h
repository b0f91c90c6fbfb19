#pragma once

#include <span>
#include <string>
#include <vector>

#include "sluice/comm/communicator.h"
#include "sluice/plan/simulate.h"
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

// The same of one process alone, with the spans as they are.
void write_timeline(std::span<const Span> spans,
                    std::span<const std::string> labels,
                    const std::string& path);

// A simulated step, with clocks that start at 0.
std::vector<Span> spans_of(const Simulation& simulation, double forward);

}  // namespace sluice
