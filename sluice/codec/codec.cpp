#include "sluice/codec/codec.h"

#include <algorithm>
#include <array>

#include "sluice/core/error.h"

namespace sluice {
namespace {

constexpr std::string_view kAuto = "auto";

constexpr std::array<std::string_view, 7> kSummaries = {
    "no indices: for blocks that hold every element",
    "low bits packed, high bits in unary: near the entropy of random positions",
    "deltas in blocks of 256 at the width of the largest: best for clusters",
    "position inside a row or tile: for sparsifiers that select by rows",
    "one bit per element: for dense blocks",
    "32 bits per index",
    "64 bits per index",
};

struct Params {
  std::string values = "fp32";
};

ParamList list(Params& p) {
  return {{"values",
           &p.values,
           "how values travel; what rounding takes off stays in the residual",
           0,
           0,
           {"fp32", "bf16", "fp16"}}};
}

struct Scratch {
  std::uint64_t written;
  DecodeResult result;
};

}  // namespace

Codec::Codec(Backend& backend, std::string_view text)
    : backend_(backend), scratch_(backend.allocate(sizeof(Scratch))) {
  const Spec spec = parse_spec(text);
  if (spec.name != kAuto) {
    const auto at =
        std::find(kIndexFormNames.begin(), kIndexFormNames.end(), spec.name);
    if (at == kIndexFormNames.end()) {
      std::vector<std::string_view> known = {kAuto};
      known.insert(known.end(), kIndexFormNames.begin(), kIndexFormNames.end());
      fail_unknown("codec", spec.name, known);
    }
    choose_ = false;
    index_form_ = static_cast<IndexForm>(at - kIndexFormNames.begin());
  }
  Params params;
  const ParamList params_list = list(params);
  for (const auto& [key, value] : spec.params) {
    set_param(params_list, concat("codec '", spec.name, "'"), key, value);
  }
  values_ = static_cast<ValueForm>(
      std::find(kValueFormNames.begin(), kValueFormNames.end(), params.values) -
      kValueFormNames.begin());
}

std::size_t Codec::max_bytes(std::size_t count, std::size_t segments) {
  // raw64 and fp32 or tables, whatever the form; bitmaps and bitpack widths are
  // only chosen where they are smaller, and forced ones grow the buffer.
  return sizeof(WireHeader) + 12 * count + 64 + segments * 64;
}

void Codec::encode(Stream& stream, const SparseBlock& block, ValueForm values,
                   std::span<const RowLayout> rows, Message& out) {
  starts_.resize(block.segments() + 1);
  for (std::size_t s = 0; s <= block.segments(); ++s) {
    starts_[s] = block.start(s);
  }
  // By the capacity, not the count: a count that varies must not allocate.
  std::size_t need = max_bytes(block.capacity(), block.segments());
  if (!choose_ && index_form_ == IndexForm::kBitmap) {
    need += block.dense_size() / 8;
  }
  if (out.bytes.bytes() < need) out.bytes = backend_.allocate(need);
  EncodePass pass;
  pass.indices = block.indices();
  pass.values = block.values();
  pass.starts = starts_;
  pass.dense_size = block.dense_size();
  pass.choose = choose_;
  pass.index_form = index_form_;
  pass.value_form = values;
  pass.rows = rows;
  pass.out = out.bytes.data<std::byte>();
  pass.capacity = out.bytes.bytes();
  pass.written = &scratch_.data<Scratch>()->written;
  backend_.encode(stream, pass);
  std::uint64_t written = 0;
  backend_.copy_out(stream, std::as_writable_bytes(std::span(&written, 1)),
                    pass.written);
  backend_.wait(backend_.record(stream));
  require(written > 0, "[encode] codec '",
          choose_ ? kAuto : name_of(index_form_), "' with ", name_of(values),
          " values must be able to carry this block of ", block.count(), " of ",
          block.dense_size(),
          " entries, but cannot; auto with fp32 values always can");
  out.size = written;
}

void Codec::decode(Stream& stream, std::span<const std::byte> bytes,
                   std::string_view from, SparseBlock& out) {
  require(out.segments() == 1,
          "[decode] the receiving block must have one segment, got ",
          out.segments());
  DecodePass pass;
  pass.in = bytes.data();
  pass.bytes = bytes.size();
  pass.dense_size = out.dense_size();
  pass.indices = out.indices();
  pass.values = out.values();
  pass.capacity = out.capacity();
  pass.starts = out.starts();
  pass.result = &scratch_.data<Scratch>()->result;
  backend_.decode(stream, pass);
  DecodeResult result;
  backend_.copy_out(stream, std::as_writable_bytes(std::span(&result, 1)),
                    pass.result);
  backend_.wait(out.fetch(backend_, stream));
  if (result.error != WireError::kNone) {
    throw CodecError(
        result.error,
        concat("[decode] a message of ", bytes.size(), " bytes from ", from,
               " failed the check of its ", describe(result.error)));
  }
}

std::vector<Description> codec_descriptions() {
  Params params;
  const ParamList params_list = list(params);
  std::vector<Description> all = {describe(
      kAuto, "the smallest of the others for each block", params_list)};
  for (std::size_t f = 0; f < kIndexFormNames.size(); ++f) {
    all.push_back(describe(kIndexFormNames[f], kSummaries[f], params_list));
  }
  return all;
}

}  // namespace sluice
