#include "sluice/comm/communicator.h"

#include <cstring>
#include <set>

#include "sluice/core/checksum.h"
#include "sluice/core/error.h"

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

// A frame as it was sent: whole, ours and undamaged.
bool is_sound(const FrameHeader& header, const Bytes& frame) {
  return header.magic == FrameHeader::kMagic &&
         header.bytes == frame.size() - sizeof(header) &&
         header.checksum ==
             checksum_of(header, std::span(frame).subspan(sizeof(header)));
}

FrameHeader header_of(const Bytes& frame) {
  FrameHeader header;
  if (frame.size() >= sizeof(header)) {
    std::memcpy(&header, frame.data(), sizeof(header));
  } else {
    header.magic = 0;
  }
  return header;
}

}  // namespace

void Communicator::begin(std::string_view operation, std::uint64_t step) {
  if (failure_.has_value()) throw CommError(*failure_);
  current_.resize(size());
  operation_ = operation;
  step_ = step;
  deadline_ = now() + timeout_;
}

void Communicator::send_frame(std::size_t peer, std::uint32_t phase, bool abort,
                              std::size_t suspect,
                              std::span<const std::byte> payload) {
  FrameHeader header;
  header.epoch = epoch_;
  header.step = step_;
  header.phase = phase;
  header.abort = abort ? 1 : 0;
  header.suspect = suspect;
  header.bytes = payload.size();
  header.checksum = checksum_of(header, payload);
  Bytes frame(sizeof(header) + payload.size());
  std::memcpy(frame.data(), &header, sizeof(header));
  if (!payload.empty()) {
    std::memcpy(frame.data() + sizeof(header), payload.data(), payload.size());
  }
  traffic_.bytes_sent += frame.size();
  ++traffic_.messages_sent;
  post(peer, std::move(frame));
}

void Communicator::send(std::size_t peer, std::uint32_t phase,
                        std::span<const std::byte> payload) {
  send_frame(peer, phase, false, 0, payload);
}

bool Communicator::next_frame(std::size_t peer) {
  if (!poll(peer, current_[peer])) return false;
  traffic_.bytes_received += current_[peer].size();
  return true;
}

std::span<const std::byte> Communicator::receive(std::size_t peer,
                                                 std::uint32_t phase) {
  while (!next_frame(peer)) {
    if (now() >= deadline_) time_out(peer, phase);
    idle(deadline_);
  }
  const Bytes& frame = current_[peer];
  const FrameHeader header = header_of(frame);
  if (!is_sound(header, frame)) {
    reject(peer, "a frame that is not as it was sent");
  }
  if (header.abort != 0) {
    fail(header.suspect,
         concat("[", operation_, "] rank ", rank(), " was told by rank ", peer,
                " that rank ", header.suspect, " does not answer in step ",
                step_));
  }
  if (header.epoch != epoch_ || header.step != step_ || header.phase != phase) {
    reject(peer,
           concat("epoch ", header.epoch, " step ", header.step, " phase ",
                  header.phase, " where epoch ", epoch_, " step ", step_,
                  " phase ", phase,
                  " was due; do all ranks run the same program and plan?"));
  }
  return std::span(frame).subspan(sizeof(header));
}

void Communicator::reject(std::size_t peer, const std::string& why) {
  tell_others(peer);
  fail(peer, concat("[", operation_, "] rank ", rank(), " got from rank ", peer,
                    " in step ", step_, ": ", why));
}

// An abort frame stands for whatever phase its receiver waits for.
void Communicator::tell_others(std::size_t suspect) {
  for (std::size_t r = 0; r < size(); ++r) {
    if (r != rank()) send_frame(r, 0, true, suspect, {});
  }
}

// Tells the others whom we miss and listens for a while: a peer that complains
// is alive, so the root suspect is the one who is missed and silent.
void Communicator::time_out(std::size_t peer, std::uint32_t phase) {
  tell_others(peer);
  std::set<std::size_t> missed = {peer};
  std::set<std::size_t> heard = {rank()};
  const auto until = now() + kGrace;
  while (now() < until) {
    bool any = false;
    for (std::size_t r = 0; r < size(); ++r) {
      if (r == rank() || !next_frame(r)) continue;
      const FrameHeader header = header_of(current_[r]);
      any = true;
      if (!is_sound(header, current_[r]) || header.abort == 0) continue;
      heard.insert(r);
      missed.insert(header.suspect);
    }
    if (!any) idle(until);
  }
  std::size_t root = peer;
  for (const std::size_t r : missed) {
    if (!heard.contains(r)) root = r;
  }
  const auto seconds = std::chrono::duration<double>(timeout_).count();
  fail(root, concat("[", operation_, "] rank ", rank(), " waited ", seconds,
                    " s for rank ", peer, " in step ", step_, " phase ", phase,
                    "; rank ", root, " does not answer: is it still running?"));
}

void Communicator::fail(std::size_t suspect, const std::string& message) {
  failure_.emplace(message, rank(), suspect);
  throw CommError(*failure_);
}

}  // namespace sluice
