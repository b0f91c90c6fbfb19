#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "sluice/comm/engine.h"

namespace sluice {

// The ranks of a process group of torch's that sends and receives host memory,
// as gloo's do. It must serve this engine alone: messages of others would be
// taken for frames. A call of all its ranks.
//
// A thread per peer receives, since gloo can be waited for and not polled; a
// rank that waits sleeps until one of them has something. A peer that is lost,
// and a group that was shut down, is silence: deadlines are the communicator's.
// The destructor gives messages that are on their way a few seconds.
//
// All ranks must bring the same `label`, which says how they use it; throws
// std::invalid_argument on all of them otherwise.
//
// `sums`, if not null, is another such group of the same ranks, for the
// engine's own all-reduce: one that lost a rank ends with the timeout of its
// group, and takes the connections with it. Who destroys that group waits so
// long.
std::unique_ptr<Engine> make_c10d_engine(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group,
    const c10::intrusive_ptr<c10d::ProcessGroup>& sums = {},
    const std::string& label = {});

}  // namespace sluice
