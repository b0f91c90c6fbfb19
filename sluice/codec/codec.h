#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/backend/backend.h"
#include "sluice/backend/sparse_block.h"
#include "sluice/core/params.h"

namespace sluice {

// A message that failed a check; what() says which.
class CodecError : public std::runtime_error {
 public:
  CodecError(WireError error, const std::string& message)
      : std::runtime_error(message), error_(error) {}
  WireError error() const { return error_; }

 private:
  WireError error_;
};

// Throws CodecError, with `from` (say "rank 3") in it, if a message of so many
// bytes failed a check.
void require_decoded(const DecodeResult& result, std::size_t bytes,
                     std::string_view from);

// A message in device memory. As with a SparseBlock, its size is known to the
// device first: fetch() brings it to the host.
class Message {
 public:
  std::byte* data() const { return bytes_.data<std::byte>(); }
  std::size_t capacity() const { return bytes_.bytes(); }
  std::uint64_t* written() const { return written_.data<std::uint64_t>(); }

  // Grows the capacity if needed; the content is lost then.
  void reserve(Backend& backend, std::size_t capacity);
  // Enqueues the copy of the size. Read it after backend.wait(event).
  Event fetch(Backend& backend, Stream& stream);

  // Throw std::logic_error unless the last fetch is done, and
  // std::invalid_argument if a forced form could not carry the block.
  std::size_t size() const;
  std::span<const std::byte> bytes() const { return {data(), size()}; }

 private:
  friend class Codec;
  std::string_view codec_;  // what wrote it
  Buffer bytes_;
  Buffer written_;
  std::uint64_t host_written_ = 0;
  Event fetched_;
  bool valid_ = false;
};

// What a decode found, once its event is done.
class Decoded {
 public:
  // Throws CodecError if the message failed a check, std::logic_error if the
  // verdict has not come in.
  void check(std::string_view from) const;

 private:
  friend class Codec;
  Buffer result_;
  DecodeResult host_result_;
  std::size_t bytes_ = 0;
  Event fetched_;
  bool valid_ = false;
};

// A block as bytes and back.
//
// The format is in core/wire.h. Encoding loses nothing that the segments' value
// forms can carry; decoding trusts nothing: whatever the bytes, it reads and
// writes only what it was given, and says which check failed. Everything is
// enqueued; nothing waits, and nothing allocates once buffers have grown.
class Codec {
 public:
  // "auto" or the name of an index form; values=fp32|bf16|fp16 says how values
  // travel unless the sparsifier has a form of its own, checksum=false leaves
  // it to whoever carries the message to see damage. Throws
  // std::invalid_argument for anything else.
  Codec(Backend& backend, std::string_view spec = "auto");

  // For Feedback::Setup.
  ValueForm values() const { return values_; }

  // Writes a message to `out`, and its size to `written` (device memory): 0 if
  // it does not fit, or if a forced form cannot carry the block.
  void encode(Stream& stream, const BlockView& block, std::span<std::byte> out,
              std::uint64_t* written);
  // Reads one; `result` is device memory, and so is `size`: see DecodePass. The
  // sender's segments must be these.
  void decode(Stream& stream, std::span<const std::byte> in,
              std::span<const SegmentForm> segments, const BlockSink& out,
              DecodeResult* result, const std::uint64_t* size = nullptr);

  // The same with a block that has these segments. The event's wait makes
  // out.size() known.
  Event encode(Stream& stream, const SparseBlock& block,
               std::span<const SegmentForm> segments, Message& out);
  // The event's wait makes out.count() and the verdict known; out keeps its
  // capacity as the limit.
  Event decode(Stream& stream, std::span<const std::byte> in,
               std::span<const SegmentForm> segments, SparseBlock& out,
               Decoded& decoded);

  // The most bytes that "auto" writes for so many entries.
  static std::size_t max_bytes(std::size_t count, std::size_t segments);
  // How many entries a message of the host says that it has: nobody has checked
  // that yet. 0 for what is too short to be one.
  static std::uint64_t claimed_count(std::span<const std::byte> message);

 private:
  Backend& backend_;
  WireOptions options_;
  ValueForm values_ = ValueForm::kFp32;
};

// What there is, for listings.
std::vector<Description> codec_descriptions();

}  // namespace sluice
