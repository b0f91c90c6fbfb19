#include "sluice/backend/cpu/wire.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "sluice/backend/cpu/bits.h"
#include "sluice/backend/cpu/wire_index.h"
#include "sluice/core/checksum.h"
#include "sluice/core/half.h"
#include "sluice/core/key.h"

namespace sluice::cpu::wire {
namespace {

constexpr std::size_t kTable = 4;

template <class T>
void append(std::byte*& out, const T& value) {
  std::memcpy(out, &value, sizeof(T));
  out += sizeof(T);
}

template <class T>
T take(const std::byte*& in) {
  T value;
  std::memcpy(&value, in, sizeof(T));
  in += sizeof(T);
  return value;
}

// Floats in each segment's table.
std::size_t table_size(ValueForm form) {
  return form == ValueForm::kOne ? 1 : form == ValueForm::kTwoBit ? kTable : 0;
}

// The tables of kOne and kTwoBit: how many segments, then for each the end of
// its entries and its table; the codes of all entries follow.
bool write_tables(std::span<const float> values,
                  std::span<const std::uint64_t> starts, ValueForm form,
                  std::byte* out) {
  const std::size_t segments = starts.size() - 1;
  const std::size_t size = table_size(form);
  append(out, static_cast<std::uint64_t>(segments));
  std::byte* entries = out + segments * (8 + 4 * size);
  BitWriter codes(entries);
  for (std::size_t s = 0; s < segments; ++s) {
    float table[kTable] = {};
    std::size_t used = 0;
    for (std::size_t i = starts[s]; i < starts[s + 1]; ++i) {
      std::size_t code = 0;
      const auto bits = std::bit_cast<std::uint32_t>(values[i]);
      while (code < used && std::bit_cast<std::uint32_t>(table[code]) != bits) {
        ++code;
      }
      if (code == size) return false;  // more values than the form can carry
      if (code == used) table[used++] = values[i];
      if (form == ValueForm::kTwoBit) codes.put(code, 2);
    }
    append(out, starts[s + 1]);
    for (std::size_t i = 0; i < size; ++i) append(out, table[i]);
  }
  codes.finish();
  return true;
}

WireError read_tables(std::span<const std::byte> in, ValueForm form,
                      std::span<float> values) {
  if (in.size() < 8) return WireError::kValueSection;
  const std::byte* at = in.data();
  const auto segments = take<std::uint64_t>(at);
  const std::size_t size = table_size(form);
  if (segments > in.size() / (8 + 4 * size) ||
      value_bytes(values.size(), segments, form) != in.size()) {
    return WireError::kValueSection;
  }
  BitReader codes(at + segments * (8 + 4 * size));
  std::uint64_t i = 0;
  for (std::uint64_t s = 0; s < segments; ++s) {
    const auto end = take<std::uint64_t>(at);
    float table[kTable] = {};
    for (std::size_t t = 0; t < size; ++t) table[t] = take<float>(at);
    if (end < i || end > values.size()) return WireError::kValueSection;
    for (; i < end; ++i) {
      values[i] = table[form == ValueForm::kTwoBit ? codes.get(2) : 0];
    }
  }
  return i == values.size() ? WireError::kNone : WireError::kValueSection;
}

bool write_values(std::span<const float> values,
                  std::span<const std::uint64_t> starts, ValueForm form,
                  std::byte* out) {
  switch (form) {
    case ValueForm::kFp32:
      if (!values.empty()) {
        std::memcpy(out, values.data(), values.size_bytes());
      }
      return true;
    case ValueForm::kBf16:
      for (const float v : values) append(out, to_bf16(v));
      return true;
    case ValueForm::kFp16:
      for (const float v : values) append(out, to_fp16(v));
      return true;
    case ValueForm::kOne:
    case ValueForm::kTwoBit:
      return write_tables(values, starts, form, out);
  }
  return false;
}

WireError read_values(std::span<const std::byte> in, ValueForm form,
                      std::span<float> values) {
  if (table_size(form) > 0) return read_tables(in, form, values);
  if (in.size() != value_bytes(values.size(), 0, form)) {
    return WireError::kValueSection;
  }
  const std::byte* at = in.data();
  if (form == ValueForm::kFp32) {
    if (!values.empty()) std::memcpy(values.data(), at, in.size());
  } else {
    for (float& v : values) {
      const auto half = take<std::uint16_t>(at);
      v = form == ValueForm::kBf16 ? from_bf16(half) : from_fp16(half);
    }
  }
  return WireError::kNone;
}

bool all_finite(std::span<const float> values) {
  std::uint32_t bad = 0;
  for (const float v : values) bad |= magnitude_key(v) >= kInfKey ? 1U : 0U;
  return bad == 0;
}

template <class Index>
WireError check_indices(std::span<const Index> indices, std::uint64_t n) {
  std::uint32_t bad = 0;
  for (std::size_t i = 1; i < indices.size(); ++i) {
    bad |= indices[i] <= indices[i - 1] ? 1U : 0U;
  }
  if (bad != 0) return WireError::kIndexOrder;
  if (!indices.empty() && indices.back() >= n) return WireError::kIndexRange;
  return WireError::kNone;
}

WireError check_header(const WireHeader& h, std::size_t bytes, std::uint64_t n,
                       std::size_t capacity) {
  if (h.magic != WireHeader::kMagic) return WireError::kMagic;
  if (h.version != WireHeader::kVersion) return WireError::kVersion;
  if (h.index_form >= kIndexFormNames.size() ||
      h.value_form >= kValueFormNames.size()) {
    return WireError::kForm;
  }
  if (h.reserved != 0) return WireError::kReserved;
  if (h.dense_size != n) return WireError::kDenseSize;
  if (h.count > n) return WireError::kCount;
  if (h.count > capacity) return WireError::kCapacity;
  const std::uint64_t payload = bytes - sizeof(WireHeader);
  if (h.index_bytes > payload || h.value_bytes != payload - h.index_bytes) {
    return WireError::kLengths;
  }
  return WireError::kNone;
}

}  // namespace

std::uint32_t checksum(std::span<const std::byte> header_without_it,
                       std::span<const std::byte> payload) {
  Checksum hash;
  hash.add(header_without_it);
  hash.add(payload);
  return hash.fold();
}

std::size_t value_bytes(std::uint64_t count, std::uint64_t segments,
                        ValueForm form) {
  switch (form) {
    case ValueForm::kFp32:
      return 4 * count;
    case ValueForm::kBf16:
    case ValueForm::kFp16:
      return 2 * count;
    case ValueForm::kOne:
      return 8 + segments * 12;
    case ValueForm::kTwoBit:
      return 8 + segments * (8 + 4 * kTable) + 8 * words_for(2 * count);
  }
  return 0;
}

template <class Index>
IndexForm smallest_form(const Entries<const Index>& entries, std::uint64_t n) {
  // On a tie the first wins: the cheaper ones to decode come first.
  constexpr IndexForm kForms[] = {IndexForm::kDense,   IndexForm::kEliasFano,
                                  IndexForm::kBitpack, IndexForm::kBitmap,
                                  IndexForm::kRows,    IndexForm::kRaw32,
                                  IndexForm::kRaw64};
  IndexForm best = IndexForm::kRaw64;
  std::size_t fewest = kCannot;
  for (const IndexForm form : kForms) {
    const std::size_t bytes = index_bytes(entries, n, form);
    if (bytes >= fewest) continue;
    best = form;
    fewest = bytes;
  }
  return best;
}

template <class Index>
std::size_t encode(const Entries<const Index>& entries, std::uint64_t n,
                   IndexForm index_form, ValueForm value_form,
                   std::span<std::byte> out) {
  WireHeader header;
  header.index_form = static_cast<std::uint8_t>(index_form);
  header.value_form = static_cast<std::uint8_t>(value_form);
  header.dense_size = n;
  header.count = entries.indices.size();
  header.index_bytes = index_bytes(entries, n, index_form);
  header.value_bytes =
      value_bytes(header.count, entries.starts.size() - 1, value_form);
  if (header.index_bytes == kCannot) return 0;
  const std::size_t size =
      sizeof(header) + header.index_bytes + header.value_bytes;
  if (size > out.size()) return 0;
  std::byte* payload = out.data() + sizeof(header);
  if (!write_indices(entries, n, index_form, payload)) return 0;
  if (!write_values(entries.values, entries.starts, value_form,
                    payload + header.index_bytes)) {
    return 0;
  }
  header.checksum =
      checksum(std::as_bytes(std::span(&header, 1)),
               out.subspan(sizeof(header), size - sizeof(header)));
  std::memcpy(out.data(), &header, sizeof(header));
  return size;
}

template <class Index>
DecodeResult decode(std::span<const std::byte> in, std::uint64_t n,
                    std::span<Index> indices, std::span<float> values) {
  WireHeader header;
  if (in.size() < sizeof(header)) return {WireError::kTruncated, 0, 0};
  std::memcpy(&header, in.data(), sizeof(header));
  WireError error = check_header(header, in.size(), n,
                                 std::min(indices.size(), values.size()));
  if (error != WireError::kNone) return {error, 0, 0};
  if (n > 0 && n - 1 > std::numeric_limits<Index>::max())
    return {WireError::kDenseSize, 0, 0};
  const std::span<const std::byte> payload = in.subspan(sizeof(header));
  const std::uint32_t sent = header.checksum;
  header.checksum = 0;
  if (checksum(std::as_bytes(std::span(&header, 1)), payload) != sent) {
    return {WireError::kChecksum, 0, 0};
  }
  const std::span<Index> found = indices.first(header.count);
  const std::span<float> carried = values.first(header.count);
  error = read_indices(payload.first(header.index_bytes), n,
                       static_cast<IndexForm>(header.index_form), found);
  if (error == WireError::kNone) {
    error = check_indices(std::span<const Index>(found), n);
  }
  if (error == WireError::kNone) {
    error = read_values(payload.subspan(header.index_bytes),
                        static_cast<ValueForm>(header.value_form), carried);
  }
  if (error == WireError::kNone && !all_finite(carried)) {
    error = WireError::kValueFinite;
  }
  return {error, 0, error == WireError::kNone ? header.count : 0};
}

#define SLUICE_INSTANTIATE(Index)                                         \
  template IndexForm smallest_form(const Entries<const Index>&,           \
                                   std::uint64_t);                        \
  template std::size_t encode<Index>(const Entries<const Index>&,         \
                                     std::uint64_t, IndexForm, ValueForm, \
                                     std::span<std::byte>);               \
  template DecodeResult decode(std::span<const std::byte>, std::uint64_t, \
                               std::span<Index>, std::span<float>);
SLUICE_INSTANTIATE(std::uint32_t)
SLUICE_INSTANTIATE(std::uint64_t)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::cpu::wire
