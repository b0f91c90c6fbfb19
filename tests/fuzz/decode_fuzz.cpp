// Feeds arbitrary bytes to decode(), as a hostile or broken peer would.
//
// An input is a Receiver and a message. Random bytes never get past the
// checksum, so half of the inputs have their headers repaired first.

#include <algorithm>
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
using Forms = std::vector<SegmentForm>;
using cpu::wire::Coder;

void check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "[decode_fuzz] %s\n", what);
  std::abort();
}

std::uint64_t total(std::span<const SegmentForm> forms) {
  std::uint64_t size = 0;
  for (const SegmentForm& form : forms) size += form.size;
  return size;
}

// Parts that cover the segments and have so many entries.
void repair_parts(Bytes& message, const Forms& forms, WireHeader& h) {
  std::size_t covered = 0;
  std::uint64_t count = 0;
  for (std::uint32_t i = 0; i < h.parts; ++i) {
    WirePart part;
    std::byte* at = message.data() + sizeof(h) + i * sizeof(part);
    std::memcpy(&part, at, sizeof(part));
    part.index_form %= kIndexFormNames.size();
    part.value_form %= kValueFormNames.size();
    part.reserved = 0;
    const std::size_t left = forms.size() - covered - (h.parts - 1 - i);
    part.segments = static_cast<std::uint32_t>(
        i + 1 == h.parts ? left : 1 + (part.segments + left - 1) % left);
    const std::uint64_t most =
        std::min(total(std::span(forms).subspan(covered, part.segments)),
                 h.count - count);
    if (part.count > most) part.count %= most + 1;
    covered += part.segments;
    count += part.count;
    std::memcpy(at, &part, sizeof(part));
  }
  h.count = count;
}

// Makes the outer checks pass, so that the inner ones are reached. Leaves alone
// what is right already.
void repair(Bytes& message, const Forms& forms, std::uint64_t capacity) {
  WireHeader h;
  if (message.size() < sizeof(h)) return;
  std::memcpy(&h, message.data(), sizeof(h));
  h.magic = WireHeader::kMagic;
  h.version = WireHeader::kVersion;
  h.reserved = 0;
  h.dense_size = total(forms);
  const std::uint64_t most = std::min(h.dense_size, capacity);
  if (h.count > most) h.count %= most + 1;
  const std::size_t fit = (message.size() - sizeof(h)) / sizeof(WirePart);
  const std::size_t parts = std::min(forms.size(), fit);
  if (h.parts > parts) h.parts = static_cast<std::uint32_t>(parts);
  repair_parts(message, forms, h);
  if (h.count == 0) h.parts = 0;
  std::memcpy(message.data(), &h, sizeof(h));
  h.checksum = cpu::wire::checksum(message);
  std::memcpy(message.data(), &h, sizeof(h));
}

struct Block {
  DecodeResult result;
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  std::vector<std::uint64_t> starts;

  bool operator==(const Block& other) const {
    return result.error == other.result.error && indices == other.indices &&
           values == other.values && starts == other.starts;
  }
};

Block decode(const Bytes& message, const Forms& forms, std::size_t capacity,
             std::string_view isa) {
  static Coder portable(cpu::wire_kernels("portable"));
  static Coder best(cpu::wire_kernels(""));
  Coder& coder = isa.empty() ? best : portable;
  Block block;
  // Exactly as large as promised: AddressSanitizer guards the ends.
  block.indices.resize(capacity);
  block.values.resize(capacity);
  block.starts.assign(forms.size() + 1, 1);
  block.result = coder.decode(message, forms, block.indices, block.values,
                              block.starts.data());
  check(block.result.count <= capacity, "more entries than there is room for");
  block.indices.resize(block.result.count);
  block.values.resize(block.result.count);
  return block;
}

void check_entries(const Block& block, const Forms& forms) {
  std::uint64_t end = 0;
  check(block.starts[0] == 0 && block.starts.back() == block.indices.size(),
        "the starts do not cover the entries");
  for (std::size_t s = 0; s < forms.size(); ++s) {
    check(block.starts[s] <= block.starts[s + 1], "starts descend");
    for (std::size_t i = block.starts[s]; i < block.starts[s + 1]; ++i) {
      check(block.indices[i] - end < forms[s].size,
            "an index is not in its segment");
      check(i == 0 || block.indices[i - 1] < block.indices[i],
            "indices do not ascend");
      check(std::isfinite(block.values[i]), "a value is not finite");
    }
    end += forms[s].size;
  }
}

// What was decoded must survive another trip, if its values suit the forms.
void check_round_trip(Forms forms, const Block& block) {
  for (SegmentForm& form : forms) {
    if (form.values == ValueForm::kBf16 || form.values == ValueForm::kFp16) {
      form.values = ValueForm::kFp32;
    }
  }
  static Coder coder(cpu::wire_kernels(""));
  Bytes again(sizeof(WireHeader) + forms.size() * 24 +
              8 * block.indices.size());
  again.resize(coder.encode(
      {block.indices.data(), block.values.data(), block.starts.data(), forms},
      {}, again));
  check(!again.empty(), "accepted entries do not encode");
  Block copy = decode(again, forms, block.indices.size(), "");
  check(copy == block, "entries changed on another trip");
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
  const Forms forms = receiver.forms();
  if (receiver.patch % 2 != 0) repair(message, forms, receiver.capacity);

  const Block block = decode(message, forms, receiver.capacity, "");
  check(block == decode(message, forms, receiver.capacity, "portable"),
        "instruction sets differ");
  if (block.result.error == sluice::WireError::kNone) {
    check_entries(block, forms);
    check_round_trip(forms, block);
  } else {
    check(block.result.count == 0, "a rejected message has entries");
  }
  return 0;
}
