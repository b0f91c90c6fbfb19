#include "sluice/comm/communicator.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>

#include "sluice/core/checksum.h"
#include "sluice/core/ensure.h"

namespace sluice {
namespace {

struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x4d464c53;  // "SLFM"

  std::uint32_t magic = kMagic;
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;
  std::uint32_t phase = 0;
  std::uint32_t abort = 0;
  std::uint64_t suspect = 0;
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;  // of header and payload, with this field 0
  std::uint32_t reserved = 0;
};

static_assert(sizeof(FrameHeader) == Frame::kHeader);

// How long survivors compare notes about whom they were waiting for.
constexpr auto kGrace = std::chrono::milliseconds(200);

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

// A frame as it was sent: whole, ours and undamaged.
bool is_sound(const FrameHeader& header, const Frame& frame) {
  return header.magic == FrameHeader::kMagic &&
         header.bytes == frame.payload().size() &&
         header.checksum == checksum_of(header, frame.payload());
}

// What the process waits for, where a signal handler can read it: one of two
// texts is always whole. Of ranks that are threads, the last one's.
struct WaitNote {
  char text[2][256] = {};
  std::atomic<int> current{0};
  std::atomic<bool> wanted{false};
  std::mutex mutex;  // between writers

  void set(const std::string& what) {
    const std::lock_guard lock(mutex);
    const int next = 1 - current.load();
    const std::size_t size = std::min(what.size(), sizeof(text[0]) - 1);
    std::memcpy(text[next], what.data(), size);
    text[next][size] = '\0';
    current.store(next);
  }
};
WaitNote wait_note;

void on_sigterm(int number) {
  const char* text = wait_note.text[wait_note.current.load()];
  if (text[0] != '\0') {
    // Nothing to do about a failed write on the way out.
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, text, std::strlen(text));
  }
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

void report_waits_on_sigterm() {
  wait_note.wanted = true;
  signal(SIGTERM, on_sigterm);
}

Communicator::Communicator(std::unique_ptr<Engine> engine)
    : engine_(std::move(engine)),
      current_(engine_->size()),
      early_(engine_->size(), false) {}

void Communicator::begin(std::string_view operation, std::uint64_t step) {
  if (failure_.has_value()) throw CommError(*failure_);
  operation_ = operation;
  step_ = step;
  deadline_ = now() + timeout_;
}

void Communicator::seal(Frame& frame, std::uint32_t phase, bool abort,
                        std::size_t suspect) {
  FrameHeader header;
  header.epoch = epoch_;
  header.step = step_;
  header.phase = phase;
  header.abort = abort ? 1 : 0;
  header.suspect = suspect;
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
  if (!frame.sealed()) seal(frame, phase, false, 0);
  const FrameHeader header = header_of(frame);
  expect(
      header.epoch == epoch_ && header.step == step_ && header.phase == phase,
      "[", operation_, "] a frame of phase ", header.phase,
      " must not be sent again in phase ", phase, "; copy it");
  post(peer, frame);
}

void Communicator::send(std::size_t peer, std::uint32_t phase,
                        std::span<const std::byte> payload) {
  Frame frame = make_frame(payload.size());
  std::copy(payload.begin(), payload.end(), frame.payload().begin());
  send(peer, phase, frame);
}

// Whether current_[peer] is the peer's next frame of this epoch or a later one;
// what is left of an earlier epoch goes nowhere.
bool Communicator::next_frame(std::size_t peer) {
  if (early_[peer]) {
    early_[peer] = false;
    return true;
  }
  while (engine_->poll(peer, current_[peer])) {
    traffic_.bytes_received += current_[peer].bytes().size();
    const FrameHeader header = header_of(current_[peer]);
    if (header.epoch >= epoch_ || !is_sound(header, current_[peer])) {
      return true;
    }
  }
  return false;
}

void Communicator::wait_for(std::size_t peer, std::uint32_t phase) {
  if (next_frame(peer)) return;
  if (wait_note.wanted) {
    wait_note.set(concat("[", operation_, "] rank ", rank(),
                         " was told to stop (SIGTERM) while it waited for ",
                         "rank ", peer, " in step ", step_, " phase ", phase,
                         "\n"));
  }
  do {
    if (now() >= deadline_) time_out(peer, concat(" phase ", phase));
    engine_->idle(deadline_);
  } while (!next_frame(peer));
  if (wait_note.wanted) wait_note.set("");
}

std::span<const std::byte> Communicator::receive(std::size_t peer,
                                                 std::uint32_t phase) {
  return receive_frame(peer, phase).payload();
}

Frame Communicator::receive_frame(std::size_t peer, std::uint32_t phase) {
  wait_for(peer, phase);
  Frame& frame = current_[peer];
  const FrameHeader header = header_of(frame);
  if (!is_sound(header, frame)) {
    reject(peer, "a frame that is not as it was sent");
  }
  if (header.epoch > epoch_) {
    // The peer has started over; so must we, and then this frame is due.
    early_[peer] = true;
    fail(peer, concat("[", operation_, "] rank ", rank(), " in step ", step_,
                      ": rank ", peer, " has started over with epoch ",
                      header.epoch, "; rebuild() to follow it"));
  }
  if (header.abort != 0 && !frame.payload().empty()) {
    const auto why = frame.payload();
    fail(header.suspect,
         concat("[", operation_, "] rank ", peer, " gave up in step ",
                header.step, ": ",
                std::string_view(reinterpret_cast<const char*>(why.data()),
                                 why.size())));
  }
  if (header.abort != 0) {
    fail(header.suspect,
         concat("[", operation_, "] rank ", rank(), " was told by rank ", peer,
                " that rank ", header.suspect, " does not answer in step ",
                step_));
  }
  if (header.step != step_ || header.phase != phase) {
    reject(peer,
           concat("step ", header.step, " phase ", header.phase, " where step ",
                  step_, " phase ", phase,
                  " was due; do all ranks run the same program and plan?"));
  }
  // Ranks that are threads share frames, so that it is not written to twice.
  if (!frame.sealed()) frame.seal(true);
  return frame;
}

bool Communicator::native_sum(std::span<const float> in, std::span<float> out) {
  const Engine::Native done = engine_->sum(in, out, deadline_);
  if (done == Engine::Native::kNone) return false;
  if (done == Engine::Native::kLate) {
    // The engine does not say whom it misses; the others may know more.
    time_out(rank(), " inside the engine's own all-reduce");
  }
  const std::uint64_t bytes =
      2 * in.size_bytes() * (size() - 1) / std::max<std::size_t>(size(), 1);
  traffic_.bytes_sent += bytes;
  traffic_.bytes_received += bytes;
  traffic_.messages_sent += 2 * (size() - 1);
  return true;
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
  failure_.reset();
  operation_ = "idle";
}

void Communicator::finish() {
  barrier(~std::uint64_t{0});
  engine_->finish();
}

void Communicator::reject(std::size_t peer, const std::string& why) {
  tell_others(peer);
  fail(peer, concat("[", operation_, "] rank ", rank(), " got from rank ", peer,
                    " in step ", step_, ": ", why));
}

void Communicator::abandon(std::string_view operation, std::uint64_t step,
                           const std::string& why) {
  begin(operation, step);
  tell_others(rank(), why);
  fail(rank(), why);
}

// An abort frame stands for whatever phase its receiver waits for.
void Communicator::tell_others(std::size_t suspect, std::string_view why) {
  Frame frame = make_frame(why.size());
  std::copy_n(reinterpret_cast<const std::byte*>(why.data()), why.size(),
              frame.payload().begin());
  seal(frame, 0, true, suspect);
  for (std::size_t r = 0; r < size(); ++r) {
    if (r != rank()) post(r, frame);
  }
}

// Tells the others whom we miss and listens for a while: a peer that complains
// is alive, so the root suspect is the one who is missed and silent. A rank
// that does not know whom it misses names itself.
void Communicator::time_out(std::size_t peer, const std::string& where) {
  tell_others(peer);
  std::set<std::size_t> missed = {peer};
  std::set<std::size_t> heard = {rank()};
  const auto until = now() + kGrace;
  while (now() < until) {
    bool any = false;
    for (std::size_t r = 0; r < size(); ++r) {
      if (r == rank() || early_[r] || !next_frame(r)) continue;
      const FrameHeader header = header_of(current_[r]);
      any = true;
      if (!is_sound(header, current_[r])) continue;
      if (header.epoch > epoch_) {
        early_[r] = true;
        continue;
      }
      if (header.abort == 0) continue;
      heard.insert(r);
      missed.insert(header.suspect);
    }
    if (!any) engine_->idle(until);
  }
  std::size_t root = peer;
  if (peer == rank()) {
    for (std::size_t r = 0; r < size(); ++r) {
      if (!heard.contains(r)) root = r;
    }
  }
  for (const std::size_t r : missed) {
    if (!heard.contains(r)) root = r;
  }
  const auto seconds = std::chrono::duration<double>(timeout_).count();
  const std::string whom =
      peer == rank() ? "all others" : concat("rank ", peer);
  fail(root, concat("[", operation_, "] rank ", rank(), " waited ", seconds,
                    " s for ", whom, " in step ", step_, where, "; rank ", root,
                    " does not answer: is it still running?"));
}

void Communicator::fail(std::size_t suspect, const std::string& message) {
  wait_note.set("");
  failure_.emplace(message, rank(), suspect);
  throw CommError(*failure_);
}

}  // namespace sluice
