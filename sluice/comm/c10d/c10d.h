#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "sluice/comm/engine.h"

namespace sluice {

// The ranks of a backend of torch's process groups that sends and receives host
// memory, as gloo's does. It must serve this engine alone: messages of others
// would be taken for frames. A call of all its ranks.
//
// A thread per peer receives, since gloo can be waited for and not polled; a
// rank that waits sleeps until one of them has something. A peer whose process
// has ended, and any peer of a group that was shut down, is closed() at once.
// The destructor waits, for 5 s at most, until all peers have what was sent to
// them, and ends sums that are under way.
//
// All ranks must bring the same `label`, which says how they use it; throws
// std::invalid_argument on all of them otherwise.
//
// `sums`, if not null, is another such group of the same ranks, for the
// engine's own all-reduce: a sum that waits for a rank longer than the timeout
// of the group closes the connections of the group.
std::unique_ptr<Engine> make_c10d_engine(
    const c10::intrusive_ptr<c10d::Backend>& group,
    const c10::intrusive_ptr<c10d::Backend>& sums = {},
    const std::string& label = {});

}  // namespace sluice
