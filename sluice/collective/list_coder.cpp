#include "sluice/collective/list_coder.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "sluice/core/error.h"

namespace sluice {
namespace {

std::uint64_t size_of(std::span<const SegmentForm> forms) {
  std::uint64_t n = 0;
  for (const SegmentForm& form : forms) n += form.size;
  return n;
}

// Where each segment's entries start.
void find_starts(std::span<const std::uint32_t> indices,
                 std::span<const SegmentForm> forms,
                 std::vector<std::uint64_t>& starts) {
  starts.clear();
  std::uint64_t base = 0;
  for (const SegmentForm& form : forms) {
    starts.push_back(static_cast<std::uint64_t>(
        std::lower_bound(indices.begin(), indices.end(), base) -
        indices.begin()));
    base += form.size;
  }
  starts.push_back(indices.size());
}

}  // namespace

void clip_forms(std::span<const SegmentForm> forms, std::uint64_t begin,
                std::uint64_t end, std::vector<SegmentForm>& out) {
  out.clear();
  std::uint64_t base = 0;
  for (const SegmentForm& form : forms) {
    const std::uint64_t from = std::max(base, begin);
    const std::uint64_t to = std::min(base + form.size, end);
    base += form.size;
    if (from >= to) continue;
    out.push_back(form);
    if (to - from == form.size) continue;
    out.back().size = to - from;
    out.back().rows = {};
  }
  // A message has at least one segment.
  if (out.empty()) out.push_back({});
}

ListCoder::ListCoder(Backend& host)
    : host_(host),
      stream_(host.make_stream()),
      codec_(host, "auto:checksum=false") {}

Frame ListCoder::encode(Communicator& comm, const ListView& list,
                        std::span<const SegmentForm> forms,
                        std::size_t prefix) {
  const auto start = std::chrono::steady_clock::now();
  find_starts(list.indices, forms, starts_);
  Frame frame =
      comm.make_frame(prefix + Codec::max_bytes(list.size(), forms.size()));
  std::uint64_t written = 0;
  codec_.encode(
      *stream_,
      {list.indices.data(), list.values.data(), starts_.data(), forms},
      frame.payload().subspan(prefix), &written);
  if (written == 0) {
    throw std::logic_error("[encode] a list did not fit its forms");
  }
  frame.resize(prefix + written);
  if (watch_) watch_(start);
  return frame;
}

Frame ListCoder::encode(Communicator& comm, const ListView& list,
                        std::uint64_t n, std::size_t prefix) {
  const SegmentForm whole = {.size = n, .sums = true};
  return encode(comm, list, {&whole, 1}, prefix);
}

Frame ListCoder::encode_indices(Communicator& comm,
                                std::span<const std::uint32_t> indices,
                                std::uint64_t n) {
  const std::size_t ready = ones_.size();
  if (ready < indices.size()) {
    ones_.resize(indices.size());
    std::fill(ones_.begin() + ready, ones_.end(), 1.0F);
  }
  const SegmentForm whole = {.size = n, .values = ValueForm::kOne};
  return encode(comm, {indices, {ones_.data(), indices.size()}}, {&whole, 1});
}

void ListCoder::decode(Communicator& comm, std::size_t peer,
                       std::span<const std::byte> bytes,
                       std::span<const SegmentForm> forms, HostList& out) {
  // What the header claims decides how much is made ready, up to what there can
  // be.
  out.reset(std::min(Codec::claimed_count(bytes), size_of(forms)));
  starts_.resize(forms.size() + 1);
  DecodeResult result;
  codec_.decode(*stream_, bytes, forms,
                {out.indices(), out.values(), starts_.data(), out.size()},
                &result);
  if (result.error != WireError::kNone) {
    comm.reject(peer, concat("a message of ", bytes.size(),
                             " bytes that failed the check of its ",
                             describe(result.error)));
  }
  out.shrink(result.count);
}

void ListCoder::decode(Communicator& comm, std::size_t peer,
                       std::span<const std::byte> bytes, std::uint64_t n,
                       HostList& out, ValueForm values) {
  const SegmentForm whole = {.size = n, .values = values, .sums = true};
  decode(comm, peer, bytes, {&whole, 1}, out);
}

Frame encode_ranked(ListCoder& coder, Communicator& comm, const ListView& list,
                    std::span<const SegmentForm> forms, std::uint64_t k) {
  Frame frame = coder.encode(comm, list, forms, sizeof(k));
  std::memcpy(frame.payload().data(), &k, sizeof(k));
  return frame;
}

std::uint64_t receive_ranked(ListCoder& coder, Communicator& comm,
                             std::size_t peer, std::uint32_t phase,
                             std::span<const SegmentForm> forms,
                             HostList& out) {
  const auto bytes = comm.receive(peer, phase);
  std::uint64_t k = 0;
  if (bytes.size() < sizeof(k)) comm.reject(peer, "a list without a k");
  std::memcpy(&k, bytes.data(), sizeof(k));
  coder.decode(comm, peer, bytes.subspan(sizeof(k)), forms, out);
  return k;
}

}  // namespace sluice
