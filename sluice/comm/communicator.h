#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

using Bytes = std::vector<std::byte>;

// A peer that is dead, late, or somewhere else in the program. what() names the
// rank that noticed, the root suspect, the operation and the step.
class CommError : public std::runtime_error {
 public:
  CommError(const std::string& message, std::size_t rank, std::size_t suspect)
      : std::runtime_error(message), rank_(rank), suspect_(suspect) {}
  std::size_t rank() const { return rank_; }
  std::size_t suspect() const { return suspect_; }

 private:
  std::size_t rank_;
  std::size_t suspect_;
};

// What has crossed a rank's ports, headers included.
struct Traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t messages_sent = 0;
};

// Ranks that exchange bytes. Knows nothing of gradients.
//
// A call (say one sparse all-reduce) starts with begin(), which sets one
// absolute deadline for all of its waits. Messages of a pair of ranks arrive in
// order and carry epoch, step and phase: a peer that runs another step or
// another order of phases is found out and named. After an error the
// communicator stays failed. An engine supplies post, poll, idle and now; all
// of the above is here, once.
class Communicator {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Communicator() = default;

  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;

  // Every wait of a call ends this long after its begin(); default 60 s.
  void set_timeout(Clock::duration timeout) { timeout_ = timeout; }
  Clock::duration timeout() const { return timeout_; }

  // Starts a call; throws CommError if the communicator has failed.
  void begin(std::string_view operation, std::uint64_t step);

  // Sends without waiting; `payload` may be reused at once.
  void send(std::size_t peer, std::uint32_t phase,
            std::span<const std::byte> payload);
  // The peer's next message, which must be of this phase. The bytes are valid
  // until the next receive from the same peer. Throws CommError.
  std::span<const std::byte> receive(std::size_t peer, std::uint32_t phase);

  // Says that a message of `peer` made no sense and fails the communicator.
  [[noreturn]] void reject(std::size_t peer, const std::string& why);

  const Traffic& traffic() const { return traffic_; }
  void reset_traffic() { traffic_ = {}; }
  bool failed() const { return failure_.has_value(); }

  // Sums `values` over all ranks in place by the engine's own all-reduce; false
  // if it has none.
  virtual bool native_sum(std::span<float>) { return false; }

 protected:
  // Hands a frame to the engine, which owns it from now on, and returns at
  // once.
  virtual void post(std::size_t peer, Bytes frame) = 0;
  // Moves the peer's next frame to `frame`; false if there is none yet.
  virtual bool poll(std::size_t peer, Bytes& frame) = 0;
  // Returns when something may have arrived, or at `until`.
  virtual void idle(Clock::time_point until) = 0;
  virtual Clock::time_point now() const { return Clock::now(); }

 private:
  bool next_frame(std::size_t peer);
  [[noreturn]] void fail(std::size_t suspect, const std::string& message);
  void tell_others(std::size_t suspect);
  [[noreturn]] void time_out(std::size_t peer, std::uint32_t phase);
  void send_frame(std::size_t peer, std::uint32_t phase, bool abort,
                  std::size_t suspect, std::span<const std::byte> payload);

  Clock::duration timeout_ = std::chrono::seconds(60);
  std::string operation_ = "idle";
  std::uint64_t step_ = 0;
  std::uint32_t epoch_ = 0;
  Clock::time_point deadline_{};
  Traffic traffic_;
  std::vector<Bytes> current_;  // the last frame of each peer
  std::optional<CommError> failure_;
};

}  // namespace sluice
