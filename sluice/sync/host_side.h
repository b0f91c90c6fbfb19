#pragma once

#include <memory>

#include "sluice/collective/exchange_context.h"
#include "sluice/feedback/feedback.h"

namespace sluice {

// What buckets share that are selected on the host although their gradients are
// on a device.
struct HostSide {
  // `given`, if any, must outlive it; otherwise it has a backend of one thread.
  // Throws std::invalid_argument if that is none of the host's.
  HostSide(Backend& device, Backend* given, std::size_t elements);

  std::size_t memory_bytes() const {
    return arena.memory_bytes() + context.memory_bytes();
  }

  std::unique_ptr<Backend> own;
  Backend& backend;
  Arena arena;                        // of all tensors of the model
  std::unique_ptr<Stream> selecting;  // of the thread that selects
  ExchangeContext context;            // of the one that exchanges
  // Of the device, for what comes back: the exchange's own stream may wait for
  // other ranks, and copies block the host until it has come to them.
  std::unique_ptr<Stream> uploads;
};

}  // namespace sluice
