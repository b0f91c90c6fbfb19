#include "sluice/backend/cpu/wire.h"

#include <algorithm>
#include <cstring>

#include "sluice/core/checksum.h"

namespace sluice::cpu::wire {
namespace {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 32;

// Sections of a part start at a multiple of this from the message's start.
constexpr std::size_t kAlign = 8;

std::uint64_t size_of(std::span<const SegmentForm> segments) {
  std::uint64_t size = 0;
  for (const SegmentForm& s : segments) {
    // Sizes that would wrap round are as wrong as any that are too large.
    if (s.size > kMostElements - size) return kMostElements + 1;
    size += s.size;
  }
  return size;
}

WireError check_header(const WireHeader& h, std::size_t bytes, std::uint64_t n,
                       std::size_t segments, std::size_t capacity) {
  if (h.magic != WireHeader::kMagic) return WireError::kMagic;
  if (h.version != WireHeader::kVersion) return WireError::kVersion;
  if (h.reserved != 0) return WireError::kReserved;
  if (h.dense_size != n || n > kMostElements) return WireError::kDenseSize;
  if (h.parts > segments || (h.parts == 0) != (h.count == 0)) {
    return WireError::kParts;
  }
  if (h.count > n) return WireError::kCount;
  if (h.count > capacity) return WireError::kCapacity;
  if ((bytes - sizeof(h)) / sizeof(WirePart) < h.parts) {
    return WireError::kLengths;
  }
  return WireError::kNone;
}

WirePart part_at(std::span<const std::byte> message, std::size_t i) {
  WirePart part;
  std::memcpy(&part, message.data() + sizeof(WireHeader) + i * sizeof(part),
              sizeof(part));
  return part;
}

// All parts, before any of them is read.
WireError check_parts(std::span<const std::byte> message,
                      const WireHeader& header,
                      std::span<const SegmentForm> segments) {
  std::uint64_t entries = 0;
  std::size_t covered = 0;
  for (std::uint32_t i = 0; i < header.parts; ++i) {
    const WirePart part = part_at(message, i);
    if (part.index_form >= kIndexFormNames.size() ||
        part.value_form >= kValueFormNames.size()) {
      return WireError::kForm;
    }
    if (part.reserved != 0) return WireError::kReserved;
    if (part.segments == 0 || part.segments > segments.size() - covered) {
      return WireError::kParts;
    }
    if (part.count > header.count - entries ||
        part.count > size_of(segments.subspan(covered, part.segments))) {
      return WireError::kCount;
    }
    covered += part.segments;
    entries += part.count;
  }
  if (header.parts > 0 && covered != segments.size()) return WireError::kParts;
  return entries == header.count ? WireError::kNone : WireError::kCount;
}

WireError check_indices(const WireKernels& kernels,
                        std::span<const std::uint32_t> indices, Range range) {
  if (indices.empty()) return WireError::kNone;
  if (!kernels.ascends(indices.data(), indices.size())) {
    return WireError::kIndexOrder;
  }
  return indices.front() >= range.base &&
                 indices.back() - range.base < range.size
             ? WireError::kNone
             : WireError::kIndexRange;
}

}  // namespace

std::uint32_t checksum(std::span<const std::byte> message) {
  WireHeader header;
  std::memcpy(&header, message.data(), sizeof(header));
  header.checksum = 0;
  Checksum hash;
  hash.add(std::as_bytes(std::span(&header, 1)));
  hash.add(message.subspan(sizeof(header)));
  return std::max(hash.fold(), 1U);
}

// Writes the index section; null if it does not fit or a forced form cannot
// carry the indices.
std::byte* Coder::write_part_indices(const BlockView& block, Part& part,
                                     bool choose, std::byte* at,
                                     std::byte* end) {
  const auto room = static_cast<std::size_t>(end - at);
  const std::uint64_t first = block.starts[part.first];
  const std::span<const std::uint32_t> indices(block.indices + first,
                                               part.count(block));
  if (!indices.empty() &&
      (indices.front() < part.range.base ||
       indices.back() - part.range.base >= part.range.size)) {
    return nullptr;  // not of these segments
  }
  if (part.index_form == IndexForm::kRows) {
    const std::size_t bytes = row_bytes(block, part);
    if (bytes <= room &&
        write_rows(kernels_, rows_,
                   block.segments.subspan(part.first, part.last - part.first),
                   part.range, indices, at)) {
      return at + bytes;
    }
    if (!choose) return nullptr;
  }
  if (choose) part.index_form = smallest_form(kernels_, indices, part.range);
  const std::size_t bytes =
      index_bytes(kernels_, part.index_form, indices, part.range);
  if (bytes > room) return nullptr;
  write_indices(kernels_, part.index_form, indices, part.range, at);
  return at + bytes;
}

// Writes the value section, as fp32 if a table is no smaller or cannot carry
// the values; null if it does not fit.
std::byte* Coder::write_part_values(const BlockView& block, Part& part,
                                    std::byte* at, std::byte* end) {
  const auto room = static_cast<std::size_t>(end - at);
  const std::uint64_t count = part.count(block);
  const std::size_t segments = part.last - part.first;
  const std::span<const std::uint64_t> starts(block.starts + part.first,
                                              segments + 1);
  const std::size_t bytes = value_bytes(count, segments, part.value_form);
  const std::size_t plain = value_bytes(count, segments, ValueForm::kFp32);
  if (bytes < plain && bytes <= room &&
      write_values(kernels_, part.value_form, block.values, starts, at)) {
    return at + bytes;
  }
  part.value_form = ValueForm::kFp32;
  if (plain > room) return nullptr;
  write_values(kernels_, part.value_form, block.values, starts, at);
  return at + plain;
}

std::size_t Coder::encode(const BlockView& block, const WireOptions& options,
                          std::span<std::byte> out) {
  WireHeader header;
  header.dense_size = size_of(block.segments);
  header.count = block.starts[block.segments.size()];
  if (header.dense_size > kMostElements) return 0;
  parts_.clear();
  if (header.count > 0) {
    plan_parts(block, options.choose, options.index_form, parts_);
  }
  header.parts = static_cast<std::uint32_t>(parts_.size());
  std::byte* headers = out.data() + sizeof(header);
  const std::size_t head = sizeof(header) + parts_.size() * sizeof(WirePart);
  if (head > out.size()) return 0;
  std::byte* at = out.data() + head;
  std::byte* end = out.data() + out.size();
  for (Part& part : parts_) {
    while ((at - out.data()) % kAlign != 0) {
      if (at == end) return 0;
      *at++ = std::byte{0};
    }
    at = write_part_indices(block, part, options.choose, at, end);
    if (at != nullptr) at = write_part_values(block, part, at, end);
    if (at == nullptr) return 0;
    const WirePart sent = {static_cast<std::uint32_t>(part.last - part.first),
                           static_cast<std::uint8_t>(part.index_form),
                           static_cast<std::uint8_t>(part.value_form), 0,
                           part.count(block)};
    std::memcpy(headers, &sent, sizeof(sent));
    headers += sizeof(sent);
  }
  const auto size = static_cast<std::size_t>(at - out.data());
  std::memcpy(out.data(), &header, sizeof(header));
  if (options.checksum) {
    header.checksum = checksum(out.first(size));
    std::memcpy(out.data(), &header, sizeof(header));
  }
  return size;
}

WireError Coder::read_part(const WirePart& part, const Part& place, Reader& in,
                           std::span<const SegmentForm> forms,
                           std::span<std::uint32_t> indices, float* values,
                           std::uint64_t* starts) {
  const auto form = static_cast<IndexForm>(part.index_form);
  const std::uint64_t first = starts[0];
  const auto mine = indices.subspan(first, part.count);
  WireError error =
      form == IndexForm::kRows
          ? read_rows(kernels_, rows_, forms, in, place.range, mine)
          : read_indices(kernels_, form, in, place.range, mine);
  if (error == WireError::kNone) {
    error = check_indices(kernels_, mine, place.range);
  }
  if (error != WireError::kNone) return error;
  std::uint64_t end = place.range.base;
  auto at = mine.begin();
  for (std::size_t s = 0; s < forms.size(); ++s) {
    end += forms[s].size;
    at = std::lower_bound(at, mine.end(), end);
    starts[s + 1] = first + static_cast<std::uint64_t>(at - mine.begin());
  }
  const auto value_form = static_cast<ValueForm>(part.value_form);
  error =
      read_values(kernels_, value_form, in, {starts, forms.size() + 1}, values);
  // They have been read all the same.
  const bool allowed = value_form == ValueForm::kFp32 && forms[0].sums;
  return error == WireError::kValueFinite && allowed ? WireError::kNone : error;
}

WireError Coder::read_all(std::span<const std::byte> in,
                          std::span<const SegmentForm> segments,
                          std::span<std::uint32_t> indices, float* values,
                          std::uint64_t* starts) {
  WireHeader header;
  if (in.size() < sizeof(header)) return WireError::kTruncated;
  std::memcpy(&header, in.data(), sizeof(header));
  const WireError bad = check_header(header, in.size(), size_of(segments),
                                     segments.size(), indices.size());
  if (bad != WireError::kNone) return bad;
  const WireError worse = check_parts(in, header, segments);
  if (worse != WireError::kNone) return worse;
  if (header.checksum != 0 && checksum(in) != header.checksum) {
    return WireError::kChecksum;
  }
  Reader left{in.data() + sizeof(header) + header.parts * sizeof(WirePart),
              in.data() + in.size()};
  Part place;
  for (std::uint32_t i = 0; i < header.parts; ++i) {
    const WirePart part = part_at(in, i);
    const auto forms = segments.subspan(place.last, part.segments);
    place = {place.last,
             place.last + part.segments,
             {place.range.base + place.range.size, size_of(forms)},
             {},
             {}};
    while (static_cast<std::size_t>(left.at - in.data()) % kAlign != 0) {
      if (left.at == left.end || *left.at != std::byte{0}) {
        return WireError::kLengths;
      }
      ++left.at;
    }
    const WireError error = read_part(part, place, left, forms, indices, values,
                                      starts + place.first);
    if (error != WireError::kNone) return error;
  }
  return left.at == left.end ? WireError::kNone : WireError::kLengths;
}

DecodeResult Coder::decode(std::span<const std::byte> in,
                           std::span<const SegmentForm> segments,
                           std::span<std::uint32_t> indices,
                           std::span<float> values, std::uint64_t* starts) {
  const std::size_t capacity = std::min(indices.size(), values.size());
  std::fill(starts, starts + segments.size() + 1, std::uint64_t{0});
  const WireError error =
      read_all(in, segments, indices.first(capacity), values.data(), starts);
  if (error != WireError::kNone) {
    std::fill(starts, starts + segments.size() + 1, std::uint64_t{0});
  }
  return {error, 0, starts[segments.size()]};
}

}  // namespace sluice::cpu::wire
