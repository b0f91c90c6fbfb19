#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sluice/comm/engine.h"

namespace sluice {

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

// What has crossed a rank's ports, headers included. An engine's own collective
// counts as the bytes it ideally takes.
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
// communicator stays failed until it is rebuilt. Used by one thread.
class Communicator {
 public:
  using Clock = Engine::Clock;

  explicit Communicator(std::unique_ptr<Engine> engine);

  std::size_t rank() const { return engine_->rank(); }
  std::size_t size() const { return engine_->size(); }
  // Among the ranks on this machine.
  std::size_t local_rank() const { return engine_->local_rank(); }
  std::size_t local_size() const { return engine_->local_size(); }

  // Every wait of a call ends this long after its begin(); default 60 s.
  void set_timeout(Clock::duration timeout) { timeout_ = timeout; }
  Clock::duration timeout() const { return timeout_; }

  // Starts a call; throws CommError if the communicator has failed.
  void begin(std::string_view operation, std::uint64_t step);

  // Room for a payload of so many bytes, to be filled in place; resize() cuts
  // what is not needed.
  Frame make_frame(std::size_t payload) { return pool_.get(payload); }
  // Sends without waiting. The frame's header and checksum are made once,
  // however many peers get it in this phase; it must not change any more. One
  // that was received may be sent on in the same phase.
  void send(std::size_t peer, std::uint32_t phase, Frame& frame);
  // The same; `payload` is copied and may be reused at once.
  void send(std::size_t peer, std::uint32_t phase,
            std::span<const std::byte> payload);
  // The peer's next message, which must be of this phase. Throws CommError.
  Frame receive_frame(std::size_t peer, std::uint32_t phase);
  // Its payload, valid until the next receive from the same peer.
  std::span<const std::byte> receive(std::size_t peer, std::uint32_t phase);

  // Sums `in` over all ranks to `out`, which may be the same, by the engine's
  // own all-reduce; false if it has none. Throws CommError.
  bool native_sum(std::span<const float> in, std::span<float> out);

  // A call of its own: returns when all ranks have called it.
  void barrier(std::uint64_t step);

  // Says that a message of `peer` made no sense and fails the communicator.
  [[noreturn]] void reject(std::size_t peer, const std::string& why);

  // Says that this rank cannot go on with the call that it should make now, and
  // fails the communicator: the others, wherever they wait, learn why.
  [[noreturn]] void abandon(std::string_view operation, std::uint64_t step,
                            const std::string& why);

  // Starts over after an error, if all ranks that are to go on do the same:
  // what was sent before is thrown away when it arrives.
  void rebuild();
  std::uint32_t epoch() const { return epoch_; }
  bool failed() const { return failure_.has_value(); }

  // A barrier, and the engine lets go. Nothing may be called after it. A
  // process that has failed leaves without it: engines hang then.
  void finish();

  Clock::time_point now() const { return engine_->now(); }
  const Traffic& traffic() const { return traffic_; }
  void reset_traffic() { traffic_ = {}; }

 private:
  bool next_frame(std::size_t peer);
  void wait_for(std::size_t peer, std::uint32_t phase);
  [[noreturn]] void fail(std::size_t suspect, const std::string& message);
  void tell_others(std::size_t suspect, std::string_view why = {});
  [[noreturn]] void time_out(std::size_t peer, const std::string& where);
  void seal(Frame& frame, std::uint32_t phase, bool abort, std::size_t suspect);
  void post(std::size_t peer, const Frame& frame);

  std::unique_ptr<Engine> engine_;
  Clock::duration timeout_ = std::chrono::seconds(60);
  std::string operation_ = "idle";
  std::uint64_t step_ = 0;
  std::uint32_t epoch_ = 0;
  Clock::time_point deadline_{};
  Traffic traffic_;
  FramePool pool_;
  std::vector<Frame> current_;  // the last frame of each peer
  std::vector<bool> early_;     // current_ is of an epoch yet to come
  std::optional<CommError> failure_;
};

// From now on SIGTERM prints what the process was last waiting for before it
// ends the process. mpirun sends one to the survivors of a rank that died.
void report_waits_on_sigterm();

}  // namespace sluice
