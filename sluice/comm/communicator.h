#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sluice/comm/blame.h"
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

// Names a call in the headers of its frames.
struct CallId {
  std::uint32_t operation = 0;  // a number made of the operation's name
  std::uint32_t part = 0;       // of the step, counted from 1; 0: all of it
  std::uint64_t step = 0;

  friend bool operator==(const CallId&, const CallId&) = default;
};

// Ranks that exchange bytes. Knows nothing of gradients.
//
// A call (say one sparse all-reduce) starts with begin(), which sets one
// absolute deadline for all of its waits. Messages of a pair of ranks arrive in
// order and carry epoch, operation, step, part and phase. A peer that runs
// another operation, another step or another order of phases is found out and
// named. After an error the
// communicator stays failed until it is rebuilt. Used by one thread.
class Communicator {
 public:
  using Clock = Engine::Clock;

  explicit Communicator(std::unique_ptr<Engine> engine);

  // In a Group: among its members.
  std::size_t rank() const { return members_.empty() ? self() : place_; }
  std::size_t size() const {
    return members_.empty() ? world() : members_.size();
  }
  // Among the ranks on this machine.
  std::size_t local_rank() const { return engine_->local_rank(); }
  std::size_t local_size() const { return engine_->local_size(); }

  // The first rank on this machine.
  std::size_t machine() const { return engine_->machine(); }

  // Some of the ranks, for as long as it lives: rank(), size() and the peers of
  // calls are then places in `members`, so that whatever runs on a communicator
  // runs on these alone. Deadlines, traffic, epochs and failures stay those of
  // all; errors name ranks as outside, and outsiders are heard and told as
  // well. The engine has no all-reduce of its own for it.
  class Group {
   public:
    // `members`: ranks in ascending order, this one among them; must outlive
    // it. Throws std::logic_error otherwise, or inside another group.
    Group(Communicator& comm, std::span<const std::size_t> members);
    ~Group() { comm_.members_ = {}; }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

   private:
    Communicator& comm_;
  };

  // Every wait of a call ends this long after its begin(); default 60 s.
  void set_timeout(Clock::duration timeout) { timeout_ = timeout; }
  Clock::duration timeout() const { return timeout_; }

  // Steps of calls that ranks come to from different steps, or from none. Of
  // several that recover together each has a number up to 7, or what is left of
  // one would be taken for the next after a loss.
  static constexpr std::uint64_t kLastStep = ~std::uint64_t{0};
  static constexpr std::uint64_t kBetweenSteps = kLastStep - 1;
  static constexpr std::uint64_t between_steps(std::uint64_t number) {
    return kBetweenSteps - number;
  }

  // Starts a call; throws CommError if the communicator has failed.
  void begin(std::string_view operation, std::uint64_t step);
  // Splits the step of each later begin() into a step and one of its `parts`,
  // as headers and errors name them. Errors add `first` to the step.
  void count_steps(std::uint64_t parts, std::uint64_t first) {
    parts_ = parts > 0 ? parts : 1;
    first_step_ = first;
  }

  // A step as errors name it.
  std::uint64_t step_name(std::uint64_t step) const {
    return step + first_step_;
  }

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
  // own all-reduce; false if it has none. Throws CommError, after which the
  // memory of an `owner` may still be written to: see Engine::sum().
  bool native_sum(std::span<const float> in, std::span<float> out,
                  const MemoryOwner& owner = {});
  // The same in place, in two calls, so that others run beside it; null if the
  // engine cannot.
  std::unique_ptr<Engine::Sum> start_native_sum(std::span<float> values,
                                                const MemoryOwner& owner);
  void finish_native_sum(Engine::Sum& sum, std::size_t values);

  // Waits until done(), which is asked all the while, within the call: for work
  // that needs the other ranks and goes another way than by messages (`where`,
  // for errors: " inside NCCL"). Throws CommError.
  void wait_until(const std::function<bool()>& done, const std::string& where);
  // Says that such work has failed for want of another rank, whichever that is,
  // and fails the communicator: the others learn it, and the silent is named.
  [[noreturn]] void give_up(const std::string& where);
  // What such work has moved.
  void count_traffic(const Traffic& more);

  // A call of its own: returns when all ranks have called it.
  void barrier(std::uint64_t step);

  // Says that a message of `peer` made no sense and fails the communicator.
  [[noreturn]] void reject(std::size_t peer, const std::string& why);

  // Says that this rank cannot go on with the call that it should make now, and
  // fails the communicator: the others, wherever they wait, learn why.
  [[noreturn]] void abandon(std::string_view operation, std::uint64_t step,
                            const std::string& why);
  // The same, between two calls.
  [[noreturn]] void abandon(const std::string& why);

  // From any thread: the call that waits for another rank, or the next one that
  // does, gives up within 0.2 s, as by abandon(why). Until rebuild(), or until
  // it is called with an empty text.
  void interrupt(const std::string& why);

  // Does work of this rank alone, with no call of this class, which may take
  // longer than the others wait: they are told that it is alive, and their
  // deadlines move. After `limit` they are told to give up instead, and so does
  // this rank once the work is done, with a CommError that has `what` (a file,
  // say) in it.
  void work_alone(const std::string& what, std::chrono::duration<double> limit,
                  const std::function<void()>& work);

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
  enum class Kind : std::uint32_t { kData = 0, kAbort = 1, kAlive = 2 };

  // Ranks are those of the engine from here on.
  std::size_t self() const { return engine_->rank(); }
  std::size_t world() const { return engine_->size(); }
  std::size_t in_world(std::size_t peer) const {
    return members_.empty() ? peer : members_[peer];
  }

  // What is not data or of another epoch.
  bool take_news(std::size_t peer, const Frame& frame);
  bool next_frame(std::size_t peer);
  void wait_for(std::size_t peer, std::uint32_t phase);
  bool late();
  void listen();
  [[noreturn]] void fail(std::size_t suspect, const std::string& message);
  [[noreturn]] void refuse(std::size_t peer, const std::string& why);
  void tell_others(Kind kind, const Complaint& about,
                   std::string_view why = {});
  bool has_heard_all() const;
  void repeat_last_word();
  bool any_closed() const;
  std::optional<std::size_t> missed_and_closed() const;
  [[noreturn]] void give_up_on(std::size_t peer, const std::string& where);
  void seal(Frame& frame, std::uint32_t phase, Kind kind,
            const Complaint& about);
  void post(std::size_t peer, const Frame& frame);
  std::string place(const CallId& call) const;

  void end_native_sum(Engine::Native done, std::size_t values);

  std::unique_ptr<Engine> engine_;
  std::span<const std::size_t> members_;  // of the group; or empty: all
  std::size_t place_ = 0;                 // of this rank among them
  Clock::duration timeout_ = std::chrono::seconds(60);
  std::string operation_ = "idle";
  CallId call_;
  std::uint64_t parts_ = 1;
  std::uint64_t first_step_ = 0;
  std::uint32_t epoch_ = 0;
  Clock::time_point deadline_{};
  Clock::time_point began_{};
  Clock::time_point looked_{};     // when it last asked whether it is late
  Clock::time_point listen_at_{};  // to all, not only to whom it waits for
  Clock::duration paused_{};       // the longest time between two looks
  Traffic traffic_;
  FramePool pool_;
  std::vector<Frame> current_;      // the last frame of each peer
  std::vector<bool> early_;         // current_ is of an epoch yet to come
  std::vector<Fifo<Frame>> heard_;  // came while listening, to be received
  std::vector<Complaint> complaints_;
  std::mutex interrupt_mutex_;
  std::string interrupt_;  // why; written before interrupted_
  std::atomic<bool> interrupted_ = false;
  Frame last_word_;  // of a rank that gave up and said why
  std::size_t last_speaker_ = 0;
  std::optional<CommError> failure_;
};

// From now on SIGTERM prints what the process is waiting for, or the error that
// a communicator threw last, before it ends the process, unless the program has
// taken SIGTERM for itself. mpirun sends one to the survivors of a rank that
// died; one that prints its error by itself ignores SIGTERM from there on.
void report_waits_on_sigterm();

}  // namespace sluice
