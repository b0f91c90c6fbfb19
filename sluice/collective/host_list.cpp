#include "sluice/collective/entries.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "sluice/backend/cpu/wire.h"
#include "sluice/codec/codec.h"
#include "sluice/core/error.h"
#include "sluice/core/key.h"

namespace sluice {
namespace {

namespace wire = cpu::wire;

// Both lists ascend together; whether an entry is kept is data, not a branch.
Entries members(const Entries& a, std::span<const std::uint32_t> indices,
                bool wanted) {
  Entries out;
  out.resize(a.size());
  std::size_t count = 0;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < indices.size()) {
    const std::uint32_t x = a.indices[i];
    const std::uint32_t y = indices[j];
    out.indices[count] = x;
    out.values[count] = a.values[i];
    count += static_cast<std::size_t>(wanted ? x == y : x < y);
    i += static_cast<std::size_t>(x <= y);
    j += static_cast<std::size_t>(y <= x);
  }
  for (; i < a.size() && !wanted; ++i, ++count) {
    out.indices[count] = a.indices[i];
    out.values[count] = a.values[i];
  }
  out.resize(count);
  return out;
}

// The k largest have keys above `key`, and `ties` of those equal to it.
struct Cut {
  std::uint32_t key = 0;
  std::size_t ties = 0;
};

// By the upper bits of the keys, then exactly among those that share them with
// the k-th.
Cut find_cut(std::span<const float> values, std::size_t k) {
  constexpr unsigned kShift = 19;
  std::vector<std::uint32_t> counts(1U << (31 - kShift), 0);
  for (const float v : values) ++counts[magnitude_key(v) >> kShift];
  std::size_t bin = counts.size() - 1;
  while (counts[bin] < k) k -= counts[bin--];
  std::vector<std::uint32_t> keys(counts[bin] + 1);
  std::size_t count = 0;
  for (const float v : values) {
    const std::uint32_t key = magnitude_key(v);
    keys[count] = key;
    count += key >> kShift == bin ? 1U : 0U;
    if (count == counts[bin]) break;
  }
  keys.resize(count);
  const auto place = keys.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(keys.begin(), place, keys.end(), std::greater<>());
  const auto above = std::count_if(
      keys.begin(), place, [&](std::uint32_t key) { return key > *place; });
  return {*place, k - static_cast<std::size_t>(above)};
}

// With explicit zeros where there is nothing.
Entries filled(const Entries& entries, std::uint64_t n) {
  Entries out;
  out.resize(n);
  std::iota(out.indices.begin(), out.indices.end(), 0U);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    out.values[entries.indices[i]] = entries.values[i];
  }
  return out;
}

// Who is told of this thread's encode().
thread_local EncodeWatch::Report watcher;

// Keeps its memory from one message to the next.
wire::Coder& coder() {
  thread_local wire::Coder mine(cpu::wire_kernels(""));
  return mine;
}

// Bytes of values alone.
std::size_t value_bytes(std::size_t count, ValueForm values) {
  const bool half = values == ValueForm::kBf16 || values == ValueForm::kFp16;
  return (half ? 2 : 4) * count;
}

Bytes encode_quietly(const Entries& entries, std::uint64_t n,
                     ValueForm values) {
  const std::uint64_t starts[] = {0, entries.size()};
  const SegmentForm form = {n, values, {}};
  Bytes out(Codec::max_bytes(entries.size(), 1));
  out.resize(coder().encode(
      {entries.indices.data(), entries.values.data(), starts, {&form, 1}}, {},
      out));
  return out;
}

}  // namespace

std::size_t Pieces::size() const {
  std::size_t count = dense.size();
  for (const Entries& list : lists) count += list.size();
  return count;
}

void Pieces::clear() {
  for (Entries& list : lists) list.clear();
  dense.clear();
}

void Pieces::write(std::span<float> out, float scale) const {
  PieceWriter(*this, scale).write(out);
}

void PieceWriter::write(std::span<float> out) {
  // Small enough to stay in a core's cache while every list adds to it: the
  // lists one after another would each walk through all of memory.
  constexpr std::size_t kBlock = 1 << 14;
  for (std::size_t at = 0; at < out.size(); at += kBlock) {
    write_block(out.subspan(at, std::min(kBlock, out.size() - at)));
  }
}

void PieceWriter::write_block(std::span<float> out) {
  if (!pieces_.dense.empty()) {
    const float* from = pieces_.dense.data() + at_;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = scale_ * from[i];
  } else {
    std::fill(out.begin(), out.end(), 0.0F);
  }
  const std::uint64_t end = at_ + out.size();
  for (std::size_t l = 0; l < pieces_.lists.size(); ++l) {
    const Entries& list = pieces_.lists[l];
    std::size_t& i = next_[l];
    for (; i < list.size() && list.indices[i] < end; ++i) {
      out[list.indices[i] - at_] += scale_ * list.values[i];
    }
  }
  at_ = end;
}

Entries merged(const Entries& a, const Entries& b) {
  Entries out;
  merge(a, b, out);
  return out;
}

void merge_all(std::vector<Entries>& lists, Entries& scratch) {
  for (std::size_t half = 1; half < lists.size(); half *= 2) {
    for (std::size_t i = 0; i + half < lists.size(); i += 2 * half) {
      merge(lists[i], lists[i + half], scratch);
      std::swap(lists[i], scratch);
    }
  }
}

Entries largest(const Entries& entries, std::size_t k) {
  if (entries.size() <= k) return entries;
  if (k == 0) return {};
  const Cut cut = find_cut(entries.values, k);
  std::size_t ties = cut.ties;
  Entries out;
  out.resize(k + 1);  // one more to write to without looking
  std::size_t count = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::uint32_t key = magnitude_key(entries.values[i]);
    const bool tie = key == cut.key && ties > 0;
    out.indices[count] = entries.indices[i];
    out.values[count] = entries.values[i];
    ties -= tie ? 1U : 0U;
    count += key > cut.key || tie ? 1U : 0U;
  }
  out.resize(k);
  return out;
}

Entries inside(const Entries& a, std::span<const std::uint32_t> indices) {
  return members(a, indices, true);
}

Entries outside(const Entries& a, std::span<const std::uint32_t> indices) {
  return members(a, indices, false);
}

Entries slice(const Entries& a, std::uint64_t begin, std::uint64_t end) {
  const auto place = [&](std::uint64_t index) {
    return std::lower_bound(a.indices.begin(), a.indices.end(), index) -
           a.indices.begin();
  };
  const auto first = place(begin);
  const auto last = place(end);
  Entries out;
  out.indices.assign(a.indices.begin() + first, a.indices.begin() + last);
  out.values.assign(a.values.begin() + first, a.values.begin() + last);
  for (std::uint32_t& j : out.indices) j -= static_cast<std::uint32_t>(begin);
  return out;
}

EncodeWatch::EncodeWatch(Report report)
    : before_(std::exchange(watcher, std::move(report))) {}
EncodeWatch::~EncodeWatch() { watcher = std::move(before_); }

Bytes encode(const Entries& entries, std::uint64_t n, ValueForm values) {
  if (!watcher) return encode_quietly(entries, n, values);
  const auto start = std::chrono::steady_clock::now();
  Bytes out = encode_quietly(entries, n, values);
  watcher(start);
  return out;
}

Bytes encode_filled(const Entries& entries, std::uint64_t n, ValueForm values) {
  // No form takes less than a bit per index, up to one per element.
  const bool table = values == ValueForm::kOne || values == ValueForm::kTwoBit;
  const std::size_t least = (table ? 0 : value_bytes(entries.size(), values)) +
                            std::min(entries.size(), n) / 8;
  // The zeros between them need a value of their own, which tables do not have.
  const ValueForm form = table ? ValueForm::kFp32 : values;
  const std::size_t dense = value_bytes(n, form);
  if (least < dense) {
    Bytes coded = encode(entries, n, values);
    if (coded.size() <= sizeof(WireHeader) + sizeof(WirePart) + dense) {
      return coded;
    }
  }
  return encode(filled(entries, n), n, form);
}

Bytes encode_indices(std::span<const std::uint32_t> indices, std::uint64_t n) {
  return encode({{indices.begin(), indices.end()},
                 std::vector<float>(indices.size(), 1.0F)},
                n, ValueForm::kOne);
}

void decode(std::span<const std::byte> bytes, std::uint64_t n, std::size_t from,
            Entries& out) {
  // The header's count decides how much is made ready, up to what there can be.
  WireHeader header;
  std::size_t count = 0;
  if (bytes.size() >= sizeof(header)) {
    std::memcpy(&header, bytes.data(), sizeof(header));
    count = std::min(header.count, n);
  }
  out.resize(count);
  const SegmentForm form = {n, ValueForm::kFp32, {}};
  std::uint64_t starts[2];
  require_decoded(
      coder().decode(bytes, {&form, 1}, out.indices, out.values, starts),
      bytes.size(), concat("rank ", from));
}

void decode_from(Communicator& comm, std::size_t peer,
                 std::span<const std::byte> bytes, std::uint64_t n,
                 Entries& out) {
  try {
    decode(bytes, n, peer, out);
  } catch (const CodecError& e) {
    comm.reject(peer, e.what());
  }
}

void receive_entries(Communicator& comm, std::size_t peer, std::uint32_t phase,
                     std::uint64_t n, Entries& out) {
  decode_from(comm, peer, comm.receive(peer, phase), n, out);
}

}  // namespace sluice
