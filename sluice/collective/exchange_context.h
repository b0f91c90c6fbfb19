#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sluice/backend/sparse_block.h"
#include "sluice/codec/codec.h"
#include "sluice/collective/list_coder.h"
#include "sluice/comm/communicator.h"
#include "sluice/comm/device_link.h"

namespace sluice {

// What a rank brings to an exchange: the block as it was selected, on its
// device.
struct Contribution {
  SparseBlock& block;  // its capacity is the same on all ranks
  // How its segments may travel; the same on all ranks.
  std::span<const SegmentForm> forms;
  std::uint64_t k = 0;  // entries that a cutting algorithm may keep
  std::uint64_t step = 0;
  // The accumulated gradient without the selected entries (the residual), for
  // algorithms that deliver more than was selected. May be empty.
  std::span<const MemoryRange> rest{};

  std::uint64_t n() const { return block.dense_size(); }
};

// A vector of n floats, as lists that add up to it, in this order (merging them
// first would cost more than adding each of them), or dense. The memory is that
// of whoever made it, until its next exchange.
struct Pieces {
  bool on_host = true;            // or on the device of the contribution
  std::vector<SparseView> lists;  // no index twice in one list
  std::span<const float> dense;   // if not empty: all n of them, and no lists

  void clear() {
    on_host = true;
    lists.clear();
    dense = {};
  }
};

// What an exchange runs on: the device that holds what was selected, a stream
// of it, and the host. Algorithms of the host ask it for views of the host;
// those of a device need not. Used by one thread.
class ExchangeContext {
 public:
  // `link`, if any, must outlive it.
  explicit ExchangeContext(Backend& device, DeviceLink* link = nullptr);

  Backend& device() { return device_; }
  bool is_host() const { return device_.is_host(); }
  Stream& stream() { return *stream_; }
  ListCoder& coder() { return coder_; }
  // By which devices reach each other; null where all goes through the host.
  DeviceLink* link() { return linked_ ? link_ : nullptr; }
  // For as long as it lives there is none: links are between all ranks, and a
  // group of them must do without.
  class Unlinked {
   public:
    explicit Unlinked(ExchangeContext& context) : context_(context) {
      context_.linked_ = false;
    }
    ~Unlinked() { context_.linked_ = true; }
    Unlinked(const Unlinked&) = delete;
    Unlinked& operator=(const Unlinked&) = delete;

   private:
    ExchangeContext& context_;
  };
  // Blocks the host until the stream has come so far. Throws CommError if ranks
  // are lost that a link needs for it.
  void wait();
  // Memory of the device for so many bytes, whose content is lost if it grows.
  // Waits first for what may still use it, and because allocating may wait for
  // the whole device, without a deadline.
  void reserve(Buffer& buffer, std::size_t bytes);
  // See EncodeWatch.
  void set_watch(const EncodeWatch& watch);

  // The selected entries where the host can read them; waits for the device.
  // Valid until the block changes or the next call.
  ListView host_view(const Contribution& mine);
  // What the rest holds at some indices.
  void rest_at(const Contribution& mine, std::span<const std::uint32_t> indices,
               std::span<float> out);

  // The block as a frame, coded by its device; waits for its size alone, and
  // for the bytes where engines send from other memory than the device's.
  Frame encode(Communicator& comm, const Contribution& mine);
  // Enqueues decoding by the device. *result, of the device, tells what became
  // of it, and is zero entries if a check failed.
  void decode(std::span<const std::byte> bytes,
              std::span<const SegmentForm> forms, SparseBlock& out,
              DecodeResult* result);

  // For a link: messages in slots of the device, whose first kSlotHeader bytes
  // hold the message's size, so that the host need not know it.
  static constexpr std::size_t kSlotHeader = 16;
  // The most bytes of a slot that such a block can need.
  static std::size_t most_slot_bytes(const Contribution& mine);
  // Enqueues coding the block; the size is 0 if it does not fit.
  void encode_slot(const Contribution& mine, std::span<std::byte> slot);
  // See decode(). `out` has the room it needs.
  void decode_slot(std::span<const std::byte> slot,
                   std::span<const SegmentForm> forms, SparseBlock& out,
                   DecodeResult* result);

  // The pieces in memory of the device, valid for work enqueued before the next
  // call.
  std::span<const SparseView> on_device(const Pieces& pieces);
  const float* on_device(std::span<const float> dense);
  // Writes scale * the pieces to tensors of the device; see ApplyPass.
  void apply(const Pieces& pieces, std::span<const TensorView> targets,
             float scale, std::uint64_t* nonfinite = nullptr);

  std::size_t memory_bytes() const;

 private:
  template <class T>
  T* grown(Buffer& buffer, std::size_t count);

  Backend& device_;
  DeviceLink* link_;
  bool linked_ = true;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Backend> own_host_;  // unless the device is one
  Backend& host_;
  ListCoder coder_;
  Codec codec_;
  EncodeWatch watch_;
  HostList mine_;
  Buffer sized_;     // bytes of the last message
  Buffer size_;      // the same on the host
  Buffer message_;   // of a device
  Buffer incoming_;  // the same
  Buffer landed_;    // pieces of the host
  Buffer gathered_;
  std::vector<SparseView> views_;
};

}  // namespace sluice
