#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sluice/codec/codec.h"
#include "sluice/collective/host_list.h"
#include "sluice/comm/communicator.h"

namespace sluice {

// What is told of encoding, when it has ended: when it began.
using EncodeWatch = std::function<void(std::chrono::steady_clock::time_point)>;

// The segments of [begin, end) of a bucket; those that are cut are no longer
// known by rows.
void clip_forms(std::span<const SegmentForm> forms, std::uint64_t begin,
                std::uint64_t end, std::vector<SegmentForm>& out);

// Lists of the host as frames of a communicator, and back: a Codec on a backend
// of the host. Frames are checked by the communicator, messages by the codec; a
// message that fails a check fails the communicator, naming its sender.
class ListCoder {
 public:
  // `host` is a backend whose memory is the host's.
  explicit ListCoder(Backend& host);

  void set_watch(EncodeWatch watch) { watch_ = std::move(watch); }

  // Indices below the forms' sizes together; values must be such that the forms
  // can carry them. `prefix` bytes before the message are the caller's.
  Frame encode(Communicator& comm, const ListView& list,
               std::span<const SegmentForm> forms, std::size_t prefix = 0);
  // Sums of any fp32 values, indices below n.
  Frame encode(Communicator& comm, const ListView& list, std::uint64_t n,
               std::size_t prefix = 0);
  // The indices alone: the values that come back are ones.
  Frame encode_indices(Communicator& comm,
                       std::span<const std::uint32_t> indices, std::uint64_t n);

  void decode(Communicator& comm, std::size_t peer,
              std::span<const std::byte> bytes,
              std::span<const SegmentForm> forms, HostList& out);
  // Of encode() with an n, and of encode_indices().
  void decode(Communicator& comm, std::size_t peer,
              std::span<const std::byte> bytes, std::uint64_t n, HostList& out,
              ValueForm values = ValueForm::kFp32);

  // Receives it first.
  template <class Form>
  void receive(Communicator& comm, std::size_t peer, std::uint32_t phase,
               const Form& form, HostList& out) {
    decode(comm, peer, comm.receive(peer, phase), form, out);
  }

 private:
  Backend& host_;
  std::unique_ptr<Stream> stream_;
  Codec codec_;
  EncodeWatch watch_;
  std::vector<std::uint64_t> starts_;
  Array<float> ones_;
};

// A list and the number of entries that a merge of it may keep.
Frame encode_ranked(ListCoder& coder, Communicator& comm, const ListView& list,
                    std::span<const SegmentForm> forms, std::uint64_t k);
std::uint64_t receive_ranked(ListCoder& coder, Communicator& comm,
                             std::size_t peer, std::uint32_t phase,
                             std::span<const SegmentForm> forms, HostList& out);

}  // namespace sluice
