#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "sluice/comm/frame.h"

namespace sluice {

// Keeps memory for as long as somebody may use it.
using MemoryOwner = std::shared_ptr<const void>;

// Moves frames of bytes between ranks: threads, MPI, or one of them behind an
// emulated network. A Communicator adds all the rest. Used by one thread, but
// for start_sum().
class Engine {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Engine() = default;

  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;
  // Among the ranks on this machine.
  virtual std::size_t local_rank() const { return rank(); }
  virtual std::size_t local_size() const { return size(); }
  // The first rank on this machine.
  virtual std::size_t machine() const { return 0; }

  // Takes a frame to send, which must not change any more, and returns at once.
  // Frames of a pair of ranks arrive in order.
  virtual void post(std::size_t peer, const Frame& frame) = 0;
  // The peer's next frame; false if there is none yet.
  virtual bool poll(std::size_t peer, Frame& frame) = 0;
  // Whether the peer has closed its connection and poll() has given all that it
  // sent. False on an engine that cannot tell.
  virtual bool closed(std::size_t /*peer*/) const { return false; }
  // Returns when something may have arrived, or at `until`.
  virtual void idle(Clock::time_point until) = 0;
  virtual Clock::time_point now() const { return Clock::now(); }

  // The engine's own all-reduce, from `in` to `out`, which may be the same:
  // kNone if it has none, kLate if `late`, which is asked all the while, said
  // so first, or if the engine has lost a rank. If `in` is `out`, and `owner`
  // keeps that memory, nothing is copied: after kLate the engine may write
  // there still, for as long as it holds the owner.
  enum class Native : std::uint8_t { kNone, kDone, kLate };
  virtual Native sum(std::span<const float> /*in*/, std::span<float> /*out*/,
                     const MemoryOwner& /*owner*/,
                     const std::function<bool()>& /*late*/) {
    return Native::kNone;
  }
  // The same in place, beside others that all ranks start in the same order;
  // null if the engine cannot. `values` are the sum when wait() says kDone.
  class Sum {
   public:
    virtual ~Sum() = default;
    virtual Native wait(const std::function<bool()>& late) = 0;
  };
  virtual std::unique_ptr<Sum> start_sum(std::span<float> /*values*/,
                                         const MemoryOwner& /*owner*/) {
    return nullptr;
  }

  // All ranks start over after an error. Returns when nothing writes any more
  // to the memory of sums.
  virtual void rebuild() {}

  // All ranks are done with each other: lets go of what the engine holds. Not
  // called after an error.
  virtual void finish() {}
};

}  // namespace sluice
