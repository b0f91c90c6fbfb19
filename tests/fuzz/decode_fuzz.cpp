// Feeds arbitrary bytes to decode(), as a hostile or broken peer would.
//
// An input is a Receiver and a message. Random bytes never get past the
// checksum, so half of the inputs have their header repaired first.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "decode_input.h"
#include "sluice/backend/cpu/wire.h"

namespace sluice::fuzz {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::size_t kHeader = sizeof(WireHeader);

void check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "[decode_fuzz] %s\n", what);
  std::abort();
}

template <class T>
T read(const Bytes& bytes, std::size_t at) {
  T value;
  check(at + sizeof(T) <= bytes.size(), "an accepted section is too short");
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Makes the outer checks pass, so that the inner ones are reached. Leaves alone
// what is right already.
void repair_header(Bytes& message, std::uint64_t n, std::uint64_t capacity) {
  if (message.size() < kHeader) return;
  auto h = read<WireHeader>(message, 0);
  const std::uint64_t payload = message.size() - kHeader;
  const std::uint64_t most = std::min(n, capacity);
  h.magic = WireHeader::kMagic;
  h.version = WireHeader::kVersion;
  h.index_form %= kIndexFormNames.size();
  h.value_form %= kValueFormNames.size();
  h.reserved = 0;
  h.dense_size = n;
  if (h.count > most) h.count %= most + 1;
  if (h.index_bytes > payload) h.index_bytes %= payload + 1;
  h.value_bytes = payload - h.index_bytes;
  h.checksum = 0;
  h.checksum = cpu::wire::checksum(std::as_bytes(std::span(&h, 1)),
                                   std::span(message).subspan(kHeader));
  std::memcpy(message.data(), &h, kHeader);
}

template <class Index>
struct Block {
  DecodeResult result;
  std::vector<Index> indices;
  std::vector<float> values;
};

template <class Index>
Block<Index> decode(const Bytes& message, std::uint64_t n,
                    std::size_t capacity) {
  Block<Index> block;
  // Exactly as large as promised: AddressSanitizer guards the ends.
  block.indices.resize(capacity);
  block.values.resize(capacity);
  block.result =
      cpu::wire::decode(std::span<const std::byte>(message), n,
                        std::span(block.indices), std::span(block.values));
  check(block.result.count <= capacity, "more entries than there is room for");
  block.indices.resize(block.result.count);
  block.values.resize(block.result.count);
  return block;
}

template <class Index>
void check_entries(const Block<Index>& block, std::uint64_t n) {
  for (std::size_t i = 0; i < block.indices.size(); ++i) {
    check(block.indices[i] < n, "an index is not below the dense size");
    check(i == 0 || block.indices[i - 1] < block.indices[i],
          "indices do not ascend");
    check(std::isfinite(block.values[i]), "a value is not finite");
  }
}

// Where the segments of an accepted message start, from its value section.
std::vector<std::uint64_t> segment_starts(const Bytes& message) {
  const auto h = read<WireHeader>(message, 0);
  const auto form = static_cast<ValueForm>(h.value_form);
  if (form != ValueForm::kOne && form != ValueForm::kTwoBit) {
    return {0, h.count};
  }
  const std::size_t at = kHeader + h.index_bytes;
  const std::size_t entry = form == ValueForm::kOne ? 12 : 24;
  std::vector<std::uint64_t> starts(1 + read<std::uint64_t>(message, at));
  for (std::size_t s = 1; s < starts.size(); ++s) {
    starts[s] = read<std::uint64_t>(message, at + 8 + (s - 1) * entry);
  }
  return starts;
}

// The rows of an accepted message, from its index section.
std::vector<RowLayout> row_layouts(const Bytes& message) {
  if (read<WireHeader>(message, 0).index_form !=
      static_cast<std::uint8_t>(IndexForm::kRows)) {
    return {};
  }
  std::vector<RowLayout> rows(read<std::uint64_t>(message, kHeader));
  for (std::size_t s = 0; s < rows.size(); ++s) {
    std::uint64_t word[4];
    for (std::size_t w = 0; w < 4; ++w) {
      word[w] = read<std::uint64_t>(message, kHeader + 8 * (1 + 4 * s + w));
    }
    rows[s].tiles = word[0] >> 63 != 0;
    rows[s].rows = {word[0] & ~(std::uint64_t{1} << 63), word[1], word[2],
                    word[3]};
    // A row cannot give more than it has; the encoder makes room for all of k.
    const std::uint64_t most =
        rows[s].tiles ? RowGeometry::kTileSize : rows[s].rows.length;
    rows[s].rows.k = std::min<std::uint64_t>(rows[s].rows.k, most);
  }
  return rows;
}

// What was decoded must survive another trip in the same forms.
template <class Index>
void check_round_trip(const Bytes& message, std::uint64_t n,
                      const Block<Index>& block) {
  const auto h = read<WireHeader>(message, 0);
  const auto starts = segment_starts(message);
  const auto rows = row_layouts(message);
  const cpu::wire::Entries<const Index> entries{block.indices, block.values,
                                                starts, rows};
  Bytes again(message.size());
  const std::size_t size =
      cpu::wire::encode(entries, n, static_cast<IndexForm>(h.index_form),
                        static_cast<ValueForm>(h.value_form), std::span(again));
  // The encoder never picks raw32 here, though small indices would fit.
  if (h.index_form == static_cast<std::uint8_t>(IndexForm::kRaw32) &&
      n > std::uint64_t{1} << 32) {
    return;
  }
  // Bit-packed widths may be wider than needed in what was received.
  check(size > 0 && size <= message.size(), "accepted entries do not encode");
  again.resize(size);
  const auto copy = decode<Index>(again, n, block.indices.size());
  check(copy.result.error == WireError::kNone, "own message is rejected");
  check(copy.indices == block.indices, "indices changed");
  check(copy.values == block.values, "values changed");
}

template <class Index>
Block<Index> fuzz_one(const Bytes& message, std::uint64_t n,
                      std::size_t capacity) {
  auto block = decode<Index>(message, n, capacity);
  if (block.result.error == WireError::kNone) {
    check_entries(block, n);
    check_round_trip(message, n, block);
  } else {
    check(block.result.count == 0, "a rejected message has entries");
  }
  return block;
}

}  // namespace
}  // namespace sluice::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice::fuzz;
  Receiver receiver;
  if (size < sizeof(receiver)) return -1;
  std::memcpy(&receiver, data, sizeof(receiver));
  const auto bytes =
      std::as_bytes(std::span(data, size)).subspan(sizeof(receiver));
  Bytes message(bytes.begin(), bytes.end());
  const std::uint64_t n = receiver.dense_size();
  if (receiver.patch % 2 != 0) repair_header(message, n, receiver.capacity);

  const auto narrow = fuzz_one<std::uint32_t>(message, n, receiver.capacity);
  const auto wide = fuzz_one<std::uint64_t>(message, n, receiver.capacity);
  // The width is the receiver's own affair. Beyond 2^32 elements a 32-bit
  // receiver may refuse, but must not take a truncated index for a good one.
  if (narrow.result.error == sluice::WireError::kNone) {
    check(std::ranges::equal(narrow.indices, wide.indices),
          "32-bit and 64-bit indices differ");
    check(narrow.values == wide.values, "values depend on the index width");
  } else if (n <= std::uint64_t{1} << 32) {
    check(narrow.result.error == wide.result.error,
          "the error depends on the index width");
  }
  return 0;
}
