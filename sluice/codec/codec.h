#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

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

// A message in device memory.
struct Message {
  Buffer bytes;
  std::size_t size = 0;
};

// A SparseBlock as bytes and back.
//
// The format is in core/wire.h. Encoding loses nothing that the value form can
// carry; decoding trusts nothing: whatever the bytes, it reads and writes only
// what it was given, and says which check failed.
class Codec {
 public:
  // "auto" or the name of an index form; values=fp32|bf16|fp16 says how values
  // travel unless the sparsifier has a form of its own. Throws
  // std::invalid_argument for anything else.
  Codec(Backend& backend, std::string_view spec = "auto");

  // For Feedback::Setup.
  ValueForm values() const { return values_; }

  // Encodes a block whose counts have been fetched. `values` must be able to
  // carry its values (see Feedback::values), `rows` are its rows if it was
  // selected by rows. Waits for the message's size. Throws
  // std::invalid_argument if a forced form cannot carry the block.
  void encode(Stream& stream, const SparseBlock& block, ValueForm values,
              std::span<const RowLayout> rows, Message& out);

  // Decodes device bytes into `out`, which has one segment and keeps its
  // capacity as the limit. Waits for the verdict. Throws CodecError, with
  // `from` (say "rank 3") in it.
  void decode(Stream& stream, std::span<const std::byte> bytes,
              std::string_view from, SparseBlock& out);

  // The most bytes a block of this many entries can take, a forced bitmap
  // apart.
  static std::size_t max_bytes(std::size_t count, std::size_t segments);

 private:
  Backend& backend_;
  bool choose_ = true;
  IndexForm index_form_ = IndexForm::kEliasFano;
  ValueForm values_ = ValueForm::kFp32;
  std::vector<std::uint64_t> starts_;
  Buffer scratch_;  // written bytes, decode result
};

// What there is, for listings.
std::vector<Description> codec_descriptions();

}  // namespace sluice
