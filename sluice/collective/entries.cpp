#include "sluice/collective/entries.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "sluice/backend/cpu/wire.h"
#include "sluice/codec/codec.h"
#include "sluice/core/error.h"
#include "sluice/core/key.h"

namespace sluice {
namespace {

namespace wire = cpu::wire;

// Calls f(i, is_inside) for every entry of a.
template <class F>
void for_membership(const Entries& a, std::span<const std::uint32_t> indices,
                    F&& f) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    while (at < indices.size() && indices[at] < a.indices[i]) ++at;
    f(i, at < indices.size() && indices[at] == a.indices[i]);
  }
}

Entries members(const Entries& a, std::span<const std::uint32_t> indices,
                bool wanted) {
  Entries out;
  for_membership(a, indices, [&](std::size_t i, bool is_inside) {
    if (is_inside == wanted) out.add(a.indices[i], a.values[i]);
  });
  return out;
}

}  // namespace

Entries merged(const Entries& a, const Entries& b) {
  Entries out;
  out.indices.reserve(a.size() + b.size());
  out.values.reserve(a.size() + b.size());
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size()) {
    const bool from_a =
        j == b.size() || (i < a.size() && a.indices[i] <= b.indices[j]);
    const bool from_b =
        i == a.size() || (j < b.size() && b.indices[j] <= a.indices[i]);
    float value = from_a ? a.values[i] : b.values[j];
    if (from_a && from_b) value += b.values[j];
    out.add(from_a ? a.indices[i] : b.indices[j], value);
    i += from_a ? 1U : 0U;
    j += from_b ? 1U : 0U;
  }
  return out;
}

Entries largest(const Entries& entries, std::size_t k) {
  if (entries.size() <= k) return entries;
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto before = [&](std::size_t x, std::size_t y) {
    const std::uint32_t a = magnitude_key(entries.values[x]);
    const std::uint32_t b = magnitude_key(entries.values[y]);
    return a != b ? a > b : x < y;
  };
  std::nth_element(order.begin(),
                   order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
                   before);
  order.resize(k);
  std::sort(order.begin(), order.end());
  Entries out;
  for (const std::size_t i : order) {
    out.add(entries.indices[i], entries.values[i]);
  }
  return out;
}

Entries inside(const Entries& a, std::span<const std::uint32_t> indices) {
  return members(a, indices, true);
}

Entries outside(const Entries& a, std::span<const std::uint32_t> indices) {
  return members(a, indices, false);
}

Entries slice(const Entries& a, std::uint64_t begin, std::uint64_t end) {
  Entries out;
  auto at = std::lower_bound(a.indices.begin(), a.indices.end(), begin);
  for (; at != a.indices.end() && *at < end; ++at) {
    out.add(static_cast<std::uint32_t>(*at - begin),
            a.values[static_cast<std::size_t>(at - a.indices.begin())]);
  }
  return out;
}

Bytes encode(const Entries& entries, std::uint64_t n, ValueForm values) {
  const std::uint64_t starts[] = {0, entries.size()};
  const wire::Entries<const std::uint32_t> view = {
      entries.indices, entries.values, starts, {}};
  const IndexForm form = wire::smallest_form(view, n);
  Bytes out(sizeof(WireHeader) + wire::index_bytes(view, n, form) +
            wire::value_bytes(entries.size(), 1, values));
  wire::encode<std::uint32_t>(view, n, form, values, out);
  return out;
}

Entries decode(std::span<const std::byte> bytes, std::uint64_t n,
               std::size_t from) {
  // The header's count decides how much is made ready, but no message can
  // carry more entries than it has bytes, dense ones included.
  WireHeader header;
  std::size_t count = 0;
  if (bytes.size() >= sizeof(header)) {
    std::memcpy(&header, bytes.data(), sizeof(header));
    count = std::min<std::size_t>(header.count, bytes.size());
  }
  Entries out;
  out.indices.resize(count);
  out.values.resize(count);
  const DecodeResult result = wire::decode<std::uint32_t>(
      bytes, n, std::span(out.indices), std::span(out.values));
  if (result.error != WireError::kNone) {
    throw CodecError(
        result.error,
        concat("[decode] a message of ", bytes.size(), " bytes from rank ",
               from, " failed the check of its ", describe(result.error)));
  }
  return out;
}

Entries receive_entries(Communicator& comm, std::size_t peer,
                        std::uint32_t phase, std::uint64_t n) {
  const std::span<const std::byte> bytes = comm.receive(peer, phase);
  try {
    return decode(bytes, n, peer);
  } catch (const CodecError& e) {
    comm.reject(peer, e.what());
  }
}

}  // namespace sluice
