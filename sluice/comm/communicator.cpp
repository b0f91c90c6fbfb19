#include "sluice/comm/communicator.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "sluice/comm/wait_note.h"
#include "sluice/core/checksum.h"
#include "sluice/core/ensure.h"

namespace sluice {
namespace {

struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x4d464c53;  // "SLFM"

  std::uint32_t magic = kMagic;
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;
  std::uint32_t part = 0;
  std::uint32_t operation = 0;  // see number_of()
  std::uint32_t phase : 30 = 0;
  std::uint32_t kind : 2 = 0;
  std::uint32_t suspect = 0;
  std::uint32_t checksum = 0;  // of header and payload, with this field 0
  std::uint32_t waited_ms = 0;
};

static_assert(sizeof(FrameHeader) == Frame::kHeader);

// How long survivors compare notes about whom they were waiting for.
constexpr auto kGrace = std::chrono::milliseconds(500);
// Who waits hears this often what ranks say that it does not wait for.
constexpr auto kListen = std::chrono::milliseconds(200);
// A rank that finds itself this much later was paused, whatever the timeout.
constexpr auto kLeastPause = std::chrono::seconds(1);
// Who waits for a device, which does not call, looks this many times at once,
// and then after naps that may grow with the wait; engines may cut them short.
constexpr int kLooks = 100;
constexpr Engine::Clock::duration kShortNap = std::chrono::microseconds(50);
constexpr Engine::Clock::duration kLongNap = std::chrono::milliseconds(10);
// A rank that is done with the last step leaves while others still wait for
// their own device, which takes no longer than this.
constexpr auto kLeave = std::chrono::seconds(2);
// Of other ranks' frames that come while a rank listens.
constexpr std::size_t kHeardAhead = 8;
// The numbers of calls between steps end here.
constexpr std::uint64_t kBetween = 7;
constexpr std::uint32_t kLastPhase = (1U << 30) - 1;

// Stands for the name of an operation in a header: FNV-1a of its characters.
std::uint32_t number_of(std::string_view operation) {
  std::uint32_t hash = 0x811c9dc5;
  for (const char c : operation) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193;
  }
  return hash;
}

// Headers name ranks by 32 bits, and nobody by all of them.
std::uint32_t narrow(std::size_t suspect) {
  return static_cast<std::uint32_t>(suspect);
}
std::size_t widen(std::uint32_t suspect) {
  return suspect == narrow(Complaint::kNobody) ? Complaint::kNobody : suspect;
}

std::uint32_t checksum_of(FrameHeader header,
                          std::span<const std::byte> payload) {
  header.checksum = 0;
  Checksum sum;
  sum.add(std::as_bytes(std::span(&header, 1)));
  sum.add(payload);
  return sum.fold();
}

FrameHeader header_of(const Frame& frame) {
  FrameHeader header;
  header.magic = 0;
  if (!frame.empty() && frame.bytes().size() >= sizeof(header)) {
    std::memcpy(&header, frame.bytes().data(), sizeof(header));
  }
  return header;
}

CallId call_of(const FrameHeader& header) {
  return {header.operation, header.part, header.step};
}

// A frame as it was sent: whole, ours and undamaged.
bool is_sound(const FrameHeader& header, const Frame& frame) {
  return header.magic == FrameHeader::kMagic &&
         header.bytes == frame.payload().size() &&
         header.checksum == checksum_of(header, frame.payload());
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Engine> engine)
    : engine_(std::move(engine)),
      current_(engine_->size()),
      early_(engine_->size(), false),
      heard_(engine_->size()) {
  // Whether a rank comes to listen depends on the others, and a step must not
  // allocate.
  for (auto& heard : heard_) heard.reserve(kHeardAhead);
}

Communicator::Group::Group(Communicator& comm,
                           std::span<const std::size_t> members)
    : comm_(comm) {
  expect(comm.members_.empty(), "[comm] a group cannot be made inside another");
  const auto own = std::ranges::find(members, comm.self());
  expect(own != members.end() && std::ranges::is_sorted(members) &&
             members.back() < comm.world(),
         "[comm] a group must have ranks in order, rank ", comm.self(),
         " among them, all below ", comm.world());
  comm.members_ = members;
  comm.place_ = static_cast<std::size_t>(own - members.begin());
}

void Communicator::begin(std::string_view operation, std::uint64_t step) {
  if (failure_.has_value()) throw CommError(*failure_);
  operation_ = operation;
  call_ = {number_of(operation), 0, step};
  if (step < between_steps(kBetween)) {
    call_.step = step / parts_;
    if (parts_ > 1) call_.part = static_cast<std::uint32_t>(step % parts_) + 1;
  }
  began_ = now();
  deadline_ = began_ + timeout_;
  paused_ = {};
}

// Counts steps as the user does.
std::string Communicator::place(const CallId& call) const {
  if (call.step == kLastStep) return "the last step";
  if (call.step >= between_steps(kBetween)) return "a call between steps";
  std::string text = concat("step ", step_name(call.step));
  if (call.part > 0) text += concat(" bucket ", call.part - 1);
  return text;
}

void Communicator::seal(Frame& frame, std::uint32_t phase, Kind kind,
                        const Complaint& about) {
  FrameHeader header;
  header.epoch = epoch_;
  header.step = call_.step;
  header.part = call_.part;
  header.operation = call_.operation;
  header.phase = phase & kLastPhase;
  header.kind = static_cast<std::uint32_t>(kind) & 3U;
  header.suspect = narrow(about.about);
  header.waited_ms = about.waited_ms;
  header.bytes = frame.payload().size();
  header.checksum = checksum_of(header, frame.payload());
  std::memcpy(frame.bytes().data(), &header, sizeof(header));
  frame.seal(true);
}

void Communicator::post(std::size_t peer, const Frame& frame) {
  traffic_.bytes_sent += frame.bytes().size();
  ++traffic_.messages_sent;
  engine_->post(peer, frame);
}

void Communicator::send(std::size_t peer, std::uint32_t phase, Frame& frame) {
  if (!frame.sealed()) seal(frame, phase, Kind::kData, {});
  const FrameHeader header = header_of(frame);
  expect(header.epoch == epoch_ && call_of(header) == call_ &&
             header.phase == phase,
         "[", operation_, "] a frame of phase ", +header.phase,
         " must not be sent again in phase ", phase, "; copy it");
  post(in_world(peer), frame);
}

void Communicator::send(std::size_t peer, std::uint32_t phase,
                        std::span<const std::byte> payload) {
  Frame frame = make_frame(payload.size());
  std::copy(payload.begin(), payload.end(), frame.payload().begin());
  send(peer, phase, frame);
}

// Whether the frame told how a peer is, and was no data.
bool Communicator::take_news(std::size_t peer, const Frame& frame) {
  const FrameHeader header = header_of(frame);
  if (header.kind == static_cast<std::uint32_t>(Kind::kData) ||
      header.epoch != epoch_ || !is_sound(header, frame)) {
    return false;
  }
  if (header.kind == static_cast<std::uint32_t>(Kind::kAlive)) {
    deadline_ = std::max(deadline_, now() + timeout_);
  } else if (!frame.payload().empty()) {
    last_word_ = frame;
    last_speaker_ = peer;
  } else {
    complaints_.push_back({peer, widen(header.suspect), header.waited_ms});
  }
  return true;
}

// Whether current_[peer] is the peer's next frame of this epoch or a later one;
// what is left of an earlier epoch goes nowhere.
bool Communicator::next_frame(std::size_t peer) {
  while (true) {
    if (early_[peer]) {
      early_[peer] = false;  // it is there
    } else if (!heard_[peer].empty()) {
      current_[peer] = heard_[peer].pop();
    } else if (engine_->poll(peer, current_[peer])) {
      traffic_.bytes_received += current_[peer].bytes().size();
    } else {
      return false;
    }
    const FrameHeader header = header_of(current_[peer]);
    const bool old = header.epoch < epoch_ && is_sound(header, current_[peer]);
    if (!old && !take_news(peer, current_[peer])) return true;
  }
}

// Takes what has come from all ranks; data are kept for whoever asks for them.
void Communicator::listen() {
  Frame frame;
  for (std::size_t r = 0; r < world(); ++r) {
    while (r != self() && engine_->poll(r, frame)) {
      traffic_.bytes_received += frame.bytes().size();
      if (!take_news(r, frame)) heard_[r].push(std::move(frame));
    }
  }
}

// Whether there is no use in waiting any longer.
bool Communicator::late() {
  const auto time = now();
  paused_ = std::max(paused_, time - looked_);
  looked_ = time;
  if (time >= std::min(listen_at_, deadline_)) {
    listen();
    listen_at_ = time + kListen;
  }
  return time >= deadline_ || !complaints_.empty() || !last_word_.empty() ||
         interrupted_;
}

void Communicator::wait_for(std::size_t peer, std::uint32_t phase) {
  if (next_frame(peer)) return;
  if (wait_note().wanted()) {
    wait_note().set(concat("[", operation_, "] rank ", self(),
                           " was told to stop (SIGTERM) while it waited for ",
                           "rank ", peer, " in ", place(call_), " phase ",
                           phase, "\n"));
  }
  looked_ = now();
  listen_at_ = looked_ + kListen;
  do {
    // In this order: late() may take the peer's last frames.
    if (engine_->closed(peer) || late()) {
      give_up_on(peer, concat(" phase ", phase));
    }
    engine_->idle(std::min(deadline_, listen_at_));
  } while (!next_frame(peer));
  if (wait_note().wanted()) wait_note().set("");
}

std::span<const std::byte> Communicator::receive(std::size_t peer,
                                                 std::uint32_t phase) {
  return receive_frame(peer, phase).payload();
}

Frame Communicator::receive_frame(std::size_t member, std::uint32_t phase) {
  const std::size_t peer = in_world(member);
  wait_for(peer, phase);
  Frame& frame = current_[peer];
  const FrameHeader header = header_of(frame);
  if (!is_sound(header, frame)) {
    refuse(peer, "a frame that is not as it was sent");
  }
  if (header.epoch > epoch_) {
    // The peer has started over; so must we, and then this frame is due.
    early_[peer] = true;
    // It may have said why.
    if (!last_word_.empty()) give_up_on(peer, "");
    fail(peer, concat("[", operation_, "] rank ", self(), " in ", place(call_),
                      ": rank ", peer, " has started over with epoch ",
                      header.epoch, "; recover on all ranks to follow it"));
  }
  const CallId call = call_of(header);
  if (call != call_ || header.phase != phase) {
    const bool other = call.operation != call_.operation;
    refuse(
        peer,
        concat(other ? "a message of another operation in " : "", place(call),
               " phase ", +header.phase, " where ", place(call_), " phase ",
               phase, " was due; do all ranks run the same program and plan?"));
  }
  // Ranks that are threads share frames, so that it is not written to twice.
  if (!frame.sealed()) frame.seal(true);
  return frame;
}

bool Communicator::native_sum(std::span<const float> in, std::span<float> out,
                              const MemoryOwner& owner) {
  if (!members_.empty()) return false;
  looked_ = now();
  listen_at_ = looked_ + kListen;
  const Engine::Native done =
      engine_->sum(in, out, owner, [this] { return late(); });
  if (done == Engine::Native::kNone) return false;
  end_native_sum(done, in.size());
  return true;
}

std::unique_ptr<Engine::Sum> Communicator::start_native_sum(
    std::span<float> values, const MemoryOwner& owner) {
  return members_.empty() ? engine_->start_sum(values, owner) : nullptr;
}

void Communicator::finish_native_sum(Engine::Sum& sum, std::size_t values) {
  looked_ = now();
  listen_at_ = looked_ + kListen;
  end_native_sum(sum.wait([this] { return late(); }), values);
}

void Communicator::end_native_sum(Engine::Native done, std::size_t values) {
  if (done == Engine::Native::kLate) {
    // The engine does not say whom it misses; the others may know more.
    give_up(" inside the engine's own all-reduce");
  }
  const std::uint64_t bytes = 2 * values * sizeof(float) * (world() - 1) /
                              std::max<std::size_t>(world(), 1);
  traffic_.bytes_sent += bytes;
  traffic_.bytes_received += bytes;
  traffic_.messages_sent += 2 * (world() - 1);
}

void Communicator::wait_until(const std::function<bool()>& done,
                              const std::string& where) {
  if (done()) return;
  if (wait_note().wanted()) {
    wait_note().set(
        concat("[", operation_, "] rank ", self(),
               " was told to stop (SIGTERM) while it waited for all "
               "others in ",
               place(call_), where, "\n"));
  }
  const auto start = now();
  looked_ = start;
  listen_at_ = start + kListen;
  int looks = 0;
  do {
    const bool lost = now() - start > kLeave && any_closed();
    if (lost || late()) give_up(where);
    if (++looks < kLooks) {
      std::this_thread::yield();
    } else {
      engine_->idle(now() +
                    std::clamp((now() - start) / 256, kShortNap, kLongNap));
    }
  } while (!done());
  if (wait_note().wanted()) wait_note().set("");
}

void Communicator::give_up(const std::string& where) {
  give_up_on(Complaint::kNobody, where);
}

void Communicator::count_traffic(const Traffic& more) {
  traffic_.bytes_sent += more.bytes_sent;
  traffic_.bytes_received += more.bytes_received;
  traffic_.messages_sent += more.messages_sent;
}

void Communicator::barrier(std::uint64_t step) {
  begin("barrier", step);
  for (std::size_t d = 1; d < size(); d *= 2) {
    const auto phase = static_cast<std::uint32_t>(d);
    send((rank() + d) % size(), phase, std::span<const std::byte>());
    receive((rank() + size() - d) % size(), phase);
  }
}

void Communicator::rebuild() {
  ++epoch_;
  engine_->rebuild();
  if (wait_note().wanted()) wait_note().set("");
  failure_.reset();
  complaints_.clear();
  last_word_ = {};
  interrupted_ = false;
  operation_ = "idle";
}

void Communicator::finish() {
  barrier(kLastStep);
  engine_->finish();
}

void Communicator::reject(std::size_t peer, const std::string& why) {
  refuse(in_world(peer), why);
}

void Communicator::refuse(std::size_t peer, const std::string& why) {
  const std::string what =
      concat("[", operation_, "] rank ", self(), " got from rank ", peer,
             " in ", place(call_), ": ", why);
  tell_others(Kind::kAbort, {self(), peer}, what);
  fail(peer, what);
}

void Communicator::abandon(std::string_view operation, std::uint64_t step,
                           const std::string& why) {
  begin(operation, step);
  abandon(why);
}

void Communicator::abandon(const std::string& why) {
  tell_others(Kind::kAbort, {self(), self()}, why);
  fail(self(), why);
}

void Communicator::interrupt(const std::string& why) {
  const std::lock_guard lock(interrupt_mutex_);
  interrupt_ = why;
  interrupted_ = !why.empty();
}

// Stands for whatever phase its receiver waits for.
void Communicator::tell_others(Kind kind, const Complaint& about,
                               std::string_view why) {
  Frame frame = make_frame(why.size());
  std::copy_n(reinterpret_cast<const std::byte*>(why.data()), why.size(),
              frame.payload().begin());
  seal(frame, 0, kind, about);
  for (std::size_t r = 0; r < world(); ++r) {
    if (r != self()) post(r, frame);
  }
}

void Communicator::work_alone(const std::string& what,
                              std::chrono::duration<double> limit,
                              const std::function<void()>& work) {
  const std::string too_long =
      concat("[", operation_, "] rank ", self(), " must be done with ", what,
             " in ", limit.count(), " s, and is not");
  const auto beat =
      std::max<Clock::duration>(timeout_ / 4, std::chrono::milliseconds(1));
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  bool over = false;
  const auto tell = [&] {
    const auto start = Clock::now();
    std::unique_lock lock(mutex);
    while (!over && !changed.wait_for(lock, beat, [&] { return done; })) {
      over = Clock::now() - start >= limit;
      tell_others(over ? Kind::kAbort : Kind::kAlive, {self(), self()},
                  over ? too_long : what);
    }
  };
  std::thread teller(tell);
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  changed.notify_all();
  teller.join();
  if (over) fail(self(), too_long);
  if (error) std::rethrow_exception(error);
}

// Whether every rank has complained: nobody is silent.
bool Communicator::has_heard_all() const {
  for (std::size_t r = 0; r < world(); ++r) {
    if (!has_complained(complaints_, r)) return false;
  }
  return true;
}

bool Communicator::any_closed() const {
  for (std::size_t r = 0; r < world(); ++r) {
    if (r != self() && engine_->closed(r)) return true;
  }
  return false;
}

// A rank that some rank misses, and that has gone without a word. A rank that
// cannot tell whom it misses may miss any.
std::optional<std::size_t> Communicator::missed_and_closed() const {
  const auto missed = [&](std::size_t r) {
    return std::ranges::any_of(complaints_, [&](const Complaint& c) {
      return c.about == r ||
             (c.from == self() && c.about == Complaint::kNobody);
    });
  };
  for (std::size_t r = 0; r < world(); ++r) {
    if (r == self() || has_complained(complaints_, r)) continue;
    if (missed(r) && engine_->closed(r)) return r;
  }
  return {};
}

// Throws what another rank has said why it gave up, if one has.
void Communicator::repeat_last_word() {
  if (last_word_.empty()) return;
  const FrameHeader header = header_of(last_word_);
  const auto why = last_word_.payload();
  fail(widen(header.suspect),
       concat("[", operation_, "] rank ", last_speaker_, " gave up in ",
              place(call_of(header)), ": ",
              std::string_view(reinterpret_cast<const char*>(why.data()),
                               why.size())));
}

// Tells the others whom we miss, or that we were paused, and listens for a
// while to what they say.
void Communicator::give_up_on(std::size_t peer, const std::string& where) {
  if (interrupted_) {
    const std::lock_guard lock(interrupt_mutex_);
    abandon(interrupt_);
  }
  // A connection that is closed may be noticed before what was said on it.
  listen();
  repeat_last_word();
  const auto ms = [](Clock::duration d) {
    return static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
  };
  const bool paused =
      paused_ > std::max<Clock::duration>(timeout_ / 2, kLeastPause);
  const Clock::duration waited = now() - began_;
  const Complaint mine = {self(), paused ? self() : peer,
                          ms(paused ? paused_ : waited)};
  tell_others(Kind::kAbort, mine);
  complaints_.insert(complaints_.begin(), mine);
  const auto until = now() + kGrace;
  while (now() < until && !has_heard_all()) {
    engine_->idle(until);
    listen();
  }
  repeat_last_word();
  const auto closed = missed_and_closed();
  const Blame verdict =
      closed ? Blame{*closed, false} : judge_complaints(complaints_, world());
  const std::string whom =
      peer == Complaint::kNobody ? "all others" : concat("rank ", peer);
  fail(verdict.suspect,
       concat("[", operation_, "] rank ", self(), " waited ",
              static_cast<double>(ms(waited)) / 1e3, " s for ", whom, " in ",
              place(call_), where, "; rank ", verdict.suspect,
              closed ? " has closed its connection: did it end or crash?"
              : verdict.answers
                  ? " was paused or slow, and answers again: was it stopped "
                    "(SIGSTOP), its machine overloaded, or the timeout short?"
                  : " does not answer: is it still running?"));
}

void Communicator::fail(std::size_t suspect, const std::string& message) {
  // The others leave in the same moment, upon which mpirun may end this process
  // before it has told anybody.
  if (wait_note().wanted()) wait_note().set(message + "\n");
  failure_.emplace(message, self(), suspect);
  throw CommError(*failure_);
}

}  // namespace sluice
