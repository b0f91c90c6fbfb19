#include "sluice/codec/codec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/core/ensure.h"

namespace sluice {
namespace {

constexpr std::string_view kAuto = "auto";

constexpr std::array<std::string_view, 6> kSummaries = {
    "no indices: for blocks that hold every element",
    "low bits packed, high bits in unary: near the entropy of random positions",
    "deltas in blocks of 256 at the width of the largest: best for clusters",
    "position inside a row or tile: for sparsifiers that select by rows",
    "one bit per element: for dense blocks",
    "32 bits per index",
};

struct Params {
  std::string values = "fp32";
  bool checksum = true;
};

ParamList list(Params& p) {
  return {{"values",
           &p.values,
           "how values travel; what rounding takes off stays in the residual",
           0,
           0,
           {"fp32", "bf16", "fp16"}},
          {"checksum", &p.checksum, "false: whoever carries it checks it"}};
}

void require_fetched(bool fetched) {
  expect(fetched,
         "[codec] what a message became must be waited for before it is read");
}

}  // namespace

void require_decoded(const DecodeResult& result, std::size_t bytes,
                     std::string_view from) {
  if (result.error == WireError::kNone) return;
  throw CodecError(result.error,
                   concat("[decode] a message of ", bytes, " bytes from ", from,
                          " failed the check of its ", describe(result.error)));
}

void Message::reserve(Backend& backend, std::size_t capacity) {
  valid_ = false;
  if (written_.data() == nullptr) {
    written_ = backend.allocate(sizeof(std::uint64_t));
  }
  if (bytes_.bytes() < capacity) bytes_ = backend.allocate(capacity);
}

Event Message::fetch(Backend& backend, Stream& stream) {
  backend.copy_out(stream, std::as_writable_bytes(std::span(&host_written_, 1)),
                   written());
  fetched_ = backend.record(stream);
  valid_ = true;
  return fetched_;
}

std::size_t Message::size() const {
  require_fetched(valid_ && fetched_.done());
  require(host_written_ > 0, "[encode] codec '", codec_,
          "' must be able to carry the block, but cannot; auto always can");
  return host_written_;
}

void Decoded::check(std::string_view from) const {
  require_fetched(valid_ && fetched_.done());
  require_decoded(host_result_, bytes_, from);
}

Codec::Codec(Backend& backend, std::string_view text) : backend_(backend) {
  const Spec spec = parse_spec(text);
  if (spec.name != kAuto) {
    const auto at =
        std::find(kIndexFormNames.begin(), kIndexFormNames.end(), spec.name);
    if (at == kIndexFormNames.end()) {
      std::vector<std::string_view> known = {kAuto};
      known.insert(known.end(), kIndexFormNames.begin(), kIndexFormNames.end());
      fail_unknown("codec", spec.name, known);
    }
    options_.choose = false;
    options_.index_form = static_cast<IndexForm>(at - kIndexFormNames.begin());
  }
  Params params;
  const ParamList params_list = list(params);
  for (const auto& [key, value] : spec.params) {
    set_param(params_list, concat("codec '", spec.name, "'"), key, value);
  }
  values_ = value_form("codec", params.values);
  options_.checksum = params.checksum;
}

std::uint64_t Codec::claimed_count(std::span<const std::byte> message) {
  WireHeader header;
  if (message.size() < sizeof(header)) return 0;
  std::memcpy(&header, message.data(), sizeof(header));
  return header.count;
}

std::size_t Codec::max_bytes(std::size_t count, std::size_t segments) {
  // At worst every segment is a part of its own, which starts at a word, with
  // 32 bits per index and per value.
  return sizeof(WireHeader) + segments * (sizeof(WirePart) + 8) + 8 * count;
}

void Codec::encode(Stream& stream, const BlockView& block,
                   std::span<std::byte> out, std::uint64_t* written) {
  backend_.encode(stream, {block, options_, out.data(), out.size(), written});
}

void Codec::decode(Stream& stream, std::span<const std::byte> in,
                   std::span<const SegmentForm> segments, const BlockSink& out,
                   DecodeResult* result, const std::uint64_t* size) {
  backend_.decode(stream, {out, in.data(), in.size(), segments, result, size});
}

Event Codec::encode(Stream& stream, const SparseBlock& block,
                    std::span<const SegmentForm> segments, Message& out) {
  require(block.segments() == segments.size(),
          "[encode] needs one form per segment, got ", segments.size(), " for ",
          block.segments());
  // By the capacity, not the count: a count that varies must not allocate.
  std::size_t need = max_bytes(block.capacity(), block.segments());
  // A forced form may be a bitmap, or bits of little use that fill up words.
  if (!options_.choose) {
    need += block.dense_size() / 8 + block.capacity() + 32 * segments.size();
  }
  out.reserve(backend_, need);
  out.codec_ = options_.choose ? kAuto : name_of(options_.index_form);
  encode(stream, {block.indices(), block.values(), block.starts(), segments},
         {out.data(), out.capacity()}, out.written());
  return out.fetch(backend_, stream);
}

Event Codec::decode(Stream& stream, std::span<const std::byte> in,
                    std::span<const SegmentForm> segments, SparseBlock& out,
                    Decoded& decoded) {
  require(out.segments() == segments.size(),
          "[decode] needs one form per segment, got ", segments.size(), " for ",
          out.segments());
  if (decoded.result_.data() == nullptr) {
    decoded.result_ = backend_.allocate(sizeof(DecodeResult));
  }
  auto* result = decoded.result_.data<DecodeResult>();
  decode(stream, in, segments,
         {out.indices(), out.values(), out.starts(), out.capacity()}, result);
  backend_.copy_out(stream,
                    std::as_writable_bytes(std::span(&decoded.host_result_, 1)),
                    result);
  decoded.bytes_ = in.size();
  decoded.fetched_ = out.fetch(backend_, stream);
  decoded.valid_ = true;
  return decoded.fetched_;
}

std::vector<Description> codec_descriptions() {
  Params params;
  const ParamList params_list = list(params);
  std::vector<Description> all = {describe(
      kAuto, "the smallest of the others, segment by segment", params_list)};
  for (std::size_t f = 0; f < kIndexFormNames.size(); ++f) {
    all.push_back(describe(kIndexFormNames[f], kSummaries[f], params_list));
  }
  return all;
}

}  // namespace sluice
