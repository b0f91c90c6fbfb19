#include "codec/wire_support.h"

#include <cstring>

#include "sluice/backend/cpu/bucket_passes.h"
#include "sluice/core/hash.h"

namespace sluice::testing {
namespace {

List of(std::vector<std::uint32_t> indices, std::uint64_t n) {
  List list;
  list.indices = std::move(indices);
  for (std::size_t i = 0; i < list.indices.size(); ++i) {
    list.values.push_back(static_cast<float>(i % 3 == 0 ? -1 : 1) *
                          (1 + static_cast<float>(i % 7)));
  }
  list.cut({n});
  return list;
}

}  // namespace

void List::cut(const std::vector<std::uint64_t>& sizes) {
  segments.clear();
  starts = {0};
  std::uint64_t end = 0;
  for (const std::uint64_t size : sizes) {
    segments.push_back({size, ValueForm::kFp32, {}});
    end += size;
    std::uint64_t count = starts.back();
    while (count < indices.size() && indices[count] < end) ++count;
    starts.push_back(count);
  }
}

void List::set_values(ValueForm form) {
  for (std::size_t s = 0; s < segments.size(); ++s) {
    segments[s].values = form;
    cpu::quantize_values(
        form, std::span(values).subspan(starts[s], starts[s + 1] - starts[s]));
  }
}

void List::append(const List& other) {
  std::uint64_t base = 0;
  for (const SegmentForm& s : segments) base += s.size;
  const std::uint64_t first = indices.size();
  for (const std::uint32_t i : other.indices) {
    indices.push_back(static_cast<std::uint32_t>(base + i));
  }
  values.insert(values.end(), other.values.begin(), other.values.end());
  for (std::size_t s = 0; s < other.segments.size(); ++s) {
    segments.push_back(other.segments[s]);
    starts.push_back(first + other.starts[s + 1]);
  }
}

List make_list(std::uint64_t n, std::uint64_t k, std::string_view kind) {
  std::vector<std::uint32_t> indices;
  for (std::uint64_t i = 0; i < k; ++i) {
    const std::uint64_t room = n / k;
    std::uint64_t index = i * room + bounded(mix64(n, k, i), room);
    if (kind == "front") index = i;
    if (kind == "back") index = n - k + i;
    if (kind == "clusters") {
      index = i / 8 * 8 * room + (room > 1 ? i % 8 : i % 8 * room);
    }
    indices.push_back(static_cast<std::uint32_t>(index));
  }
  return of(std::move(indices), n);
}

List bernoulli(std::uint64_t n, std::uint64_t gap) {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < n; ++i) {
    if (mix64(7, i) % gap == 0) indices.push_back(i);
  }
  return of(std::move(indices), n);
}

List selected(const std::string& sparsifier, const std::vector<Dims>& tensors,
              double density) {
  Rig::Options o;
  o.sparsifier = sparsifier;
  o.tensors = tensors;
  Rig rig(o);
  const Sent sent = rig.step(gaussian(rig.size(), 5), density);
  List list;
  list.indices = sent.indices;
  list.values = sent.values;
  std::vector<std::uint64_t> sizes;
  for (const SegmentForm& s : rig.feedback().forms()) sizes.push_back(s.size);
  list.cut(sizes);
  list.segments.assign(rig.feedback().forms().begin(),
                       rig.feedback().forms().end());
  return list;
}

List mixed(std::uint64_t seed) {
  List list;
  list.starts = {0};
  for (std::uint64_t s = 0; s < 1 + mix64(seed) % 8; ++s) {
    const std::uint64_t r = mix64(seed, s);
    const std::size_t n = 1 + r % 3000;
    List next;
    switch (r >> 40 & 7U) {
      case 0:
        next = make_list(n, 0, "random");
        break;
      case 1:
        next = make_list(n, n, "front");
        break;
      case 2:
        next = selected("adtopk", {{1 + n % 50, 40, 1 + r % 5}}, 0.03);
        break;
      case 3:
        next = selected("tile", {{1 + n % 200, 1 + r % 100}}, 0.01);
        break;
      default:
        next = make_list(n, 1 + n / 20, "random");
    }
    if (next.segments[0].values == ValueForm::kFp32) {
      next.set_values(static_cast<ValueForm>(r >> 50 & 3U));
    }
    list.append(next);
  }
  return list;
}

std::vector<IndexForm> plain_forms() {
  return {IndexForm::kDense, IndexForm::kEliasFano, IndexForm::kBitpack,
          IndexForm::kBitmap, IndexForm::kRaw32};
}

WireOptions forced(IndexForm form) { return {false, form, true}; }

Bytes encode(const List& list, const WireOptions& options,
             std::string_view isa) {
  std::size_t room = 4096 + 16 * list.indices.size();
  if (!options.choose && options.index_form == IndexForm::kBitmap) {
    for (const SegmentForm& s : list.segments) room += s.size / 8;
  }
  Bytes out(room);
  cpu::wire::Coder coder(cpu::wire_kernels(isa));
  out.resize(coder.encode({list.indices.data(), list.values.data(),
                           list.starts.data(), list.segments},
                          options, out));
  return out;
}

WireError decode(const Bytes& bytes, std::span<const SegmentForm> segments,
                 std::size_t capacity, List& out, std::string_view isa) {
  out.indices.assign(capacity, 0);
  out.values.assign(capacity, 0);
  out.starts.assign(segments.size() + 1, 7);
  out.segments.assign(segments.begin(), segments.end());
  cpu::wire::Coder coder(cpu::wire_kernels(isa));
  const DecodeResult result =
      coder.decode(bytes, segments, out.indices, out.values, out.starts.data());
  out.indices.resize(result.count);
  out.values.resize(result.count);
  return result.error;
}

std::vector<WirePart> parts_of(const Bytes& message) {
  WireHeader header;
  std::memcpy(&header, message.data(), sizeof(header));
  std::vector<WirePart> parts(header.parts);
  if (parts.empty()) return parts;
  std::memcpy(parts.data(), message.data() + sizeof(header),
              parts.size() * sizeof(WirePart));
  return parts;
}

void seal(Bytes& message) {
  if (message.size() < sizeof(WireHeader)) return;
  const std::uint32_t sum = cpu::wire::checksum(message);
  std::memcpy(message.data() + offsetof(WireHeader, checksum), &sum,
              sizeof(sum));
}

}  // namespace sluice::testing
