#include "sluice/codec/codec.h"

#include "support.h"

namespace sluice::testing {
namespace {

using Bytes = std::vector<std::byte>;

class CodecOnBackends : public ::testing::TestWithParam<std::string> {};

template <class T>
std::vector<T> read(Rig& rig, const T* device, std::size_t n) {
  std::vector<T> host(n);
  rig.backend().copy_out(rig.stream(), std::as_writable_bytes(std::span(host)),
                         device);
  rig.backend().wait(rig.backend().record(rig.stream()));
  return host;
}

TEST_P(CodecOnBackends, CarriesWhatFeedbackSelects) {
  for (const std::string sparsifier :
       {"topk", "adtopk", "tile", "tile:two_bit=true", "redsync-quantized",
        "none"}) {
    for (const std::string spec :
         {"auto", "elias-fano", "bitpack", "raw32", "bitmap",
          "auto:checksum=false", "auto:values=bf16", "auto:values=fp16"}) {
      Rig::Options o;
      o.backend = GetParam();
      o.sparsifier = sparsifier;
      o.tensors = {{70, 80}, {300}, {20, 30, 9}};
      o.values = Codec(*make_backend(o.backend), spec).values();
      Rig rig(o);
      Backend& backend = rig.backend();
      Codec codec(backend, spec);
      const Sent sent = rig.step(gaussian(rig.size(), 1), 0.02, false);
      const auto forms = rig.feedback().forms();
      Message message;
      backend.wait(
          codec.encode(rig.stream(), rig.feedback().staged(), forms, message));
      const std::size_t size = message.size();
      if (spec.starts_with("auto")) {
        EXPECT_LE(size, Codec::max_bytes(sent.indices.size(), 3));
      }
      SparseBlock received(backend, rig.size(), rig.size(), 3);
      Decoded decoded;
      backend.wait(codec.decode(rig.stream(), message.bytes(), forms, received,
                                decoded));
      decoded.check("rank 1");
      const std::size_t count = received.count();
      EXPECT_EQ(read(rig, received.indices(), count), sent.indices)
          << sparsifier << " " << spec;
      EXPECT_EQ(read(rig, received.values(), count), sent.values)
          << sparsifier << " " << spec;
      EXPECT_EQ(read(rig, received.starts(), 4),
                read(rig, rig.feedback().staged().starts(), 4));
    }
  }
}

// An embedding of which a few tokens were seen: their rows travel, and no more.
TEST_P(CodecOnBackends, RowsThatWereNotTouchedCostNothing) {
  constexpr std::size_t kRows = 2000;
  constexpr std::size_t kWidth = 64;
  for (const std::string sparsifier : {"topk", "adtopk", "tile", "none"}) {
    for (const std::size_t touched : {0, 1, 20}) {
      Rig::Options o;
      o.backend = GetParam();
      o.sparsifier = sparsifier;
      o.tensors = {{kRows, kWidth}};
      Rig rig(o);
      std::vector<float> g(rig.size(), 0);
      const auto values = gaussian(touched * kWidth, 3);
      for (std::size_t t = 0; t < touched; ++t) {
        std::copy_n(
            values.begin() + static_cast<std::ptrdiff_t>(t * kWidth), kWidth,
            g.begin() + static_cast<std::ptrdiff_t>(t * 97 % kRows * kWidth));
      }
      const Sent sent = rig.step(g, 0.05, false);
      // Of a row of 64, and of a tile; the budget of topk is 6400.
      const std::size_t count =
          sparsifier == "adtopk" ? touched * 3 : touched * kWidth;
      ASSERT_EQ(sent.indices.size(), count) << sparsifier;
      Codec codec(rig.backend());
      Message message;
      rig.backend().wait(codec.encode(rig.stream(), rig.feedback().staged(),
                                      rig.feedback().forms(), message));
      EXPECT_LE(message.size(), Codec::max_bytes(count, 1)) << sparsifier;
    }
  }
}

// Nothing has happened before the host waits; sizes and verdicts say so.
TEST(Codec, WaitsForNothing) {
  Rig::Options o;
  o.backend = "fake";
  o.tensors = {{1000}};
  Rig rig(o);
  rig.step(gaussian(1000, 1), 0.1, false);
  Codec codec(rig.backend());
  Message message;
  const Event event = codec.encode(rig.stream(), rig.feedback().staged(),
                                   rig.feedback().forms(), message);
  EXPECT_THROW(message.size(), std::logic_error);
  rig.backend().wait(event);
  SparseBlock received(rig.backend(), 1000, 1000, 1);
  Decoded decoded;
  EXPECT_THROW(decoded.check("rank 1"), std::logic_error);
  const Event done = codec.decode(rig.stream(), message.bytes(),
                                  rig.feedback().forms(), received, decoded);
  EXPECT_THROW(decoded.check("rank 1"), std::logic_error);
  rig.backend().wait(done);
  decoded.check("rank 1");
  EXPECT_EQ(received.count(), 100U);
}

// Host algorithms use plain arrays, straight into a frame.
TEST(Codec, WorksOnHostArraysWithTheCpuBackend) {
  auto backend = make_cpu_backend({1, ""});
  auto stream = backend->make_stream();
  Codec codec(*backend, "auto:checksum=false");
  const std::vector<std::uint32_t> indices = {3, 10, 99};
  const std::vector<float> values = {1, 2, 3};
  const std::vector<std::uint64_t> starts = {0, 2, 3};
  const std::vector<SegmentForm> segments = {{50, ValueForm::kFp32, {}},
                                             {50, ValueForm::kOne, {}}};
  Bytes frame(Codec::max_bytes(3, 2));
  std::uint64_t written = 0;
  codec.encode(*stream,
               {indices.data(), values.data(), starts.data(), segments}, frame,
               &written);
  ASSERT_GT(written, 0U);
  std::vector<std::uint32_t> indices_back(3);
  std::vector<float> values_back(3);
  std::vector<std::uint64_t> starts_back(3);
  DecodeResult result;
  codec.decode(*stream, std::span(frame).first(written), segments,
               {indices_back.data(), values_back.data(), starts_back.data(), 3},
               &result);
  require_decoded(result, written, "itself");
  EXPECT_EQ(result.count, 3U);
  EXPECT_EQ(indices_back, indices);
  EXPECT_EQ(values_back, values);
  EXPECT_EQ(starts_back, starts);
  // A frame that is too small is said to be.
  codec.encode(*stream,
               {indices.data(), values.data(), starts.data(), segments},
               std::span(frame).first(written - 1), &written);
  EXPECT_EQ(written, 0U);
}

INSTANTIATE_TEST_SUITE_P(Backends, CodecOnBackends,
                         ::testing::ValuesIn(backend_names()),
                         [](const auto& b) { return safe_name(b.param); });

TEST(Codec, SaysWhichCheckFailedAndWhoSentIt) {
  auto backend = make_cpu_backend({1, ""});
  auto stream = backend->make_stream();
  Codec codec(*backend);
  SparseBlock out(*backend, 100, 100, 1);
  Decoded decoded;
  const std::vector<SegmentForm> segments = {{100, ValueForm::kFp32, {}}};
  const Bytes junk(80, std::byte{7});
  backend->wait(codec.decode(*stream, junk, segments, out, decoded));
  try {
    decoded.check("rank 3");
    FAIL();
  } catch (const CodecError& e) {
    EXPECT_EQ(e.error(), WireError::kMagic);
    EXPECT_STREQ(e.what(),
                 "[decode] a message of 80 bytes from rank 3 failed the check "
                 "of its magic: the first four bytes must read SLUC");
  }
}

TEST(Codec, UnknownNamesListWhatExists) {
  auto backend = make_cpu_backend({1, ""});
  try {
    Codec codec(*backend, "elias");
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(),
                 "[make_codec] no codec 'elias'; known: auto dense elias-fano "
                 "bitpack rows bitmap raw32");
  }
  EXPECT_THROW(Codec(*backend, "auto:values=fp8"), std::invalid_argument);
}

TEST(Codec, RefusesAFormThatCannotCarryTheBlock) {
  Rig::Options o;
  o.tensors = {{100}};
  Rig rig(o);
  rig.step(gaussian(100, 1), 0.1, false);
  Codec codec(rig.backend(), "dense");
  Message message;
  rig.backend().wait(codec.encode(rig.stream(), rig.feedback().staged(),
                                  rig.feedback().forms(), message));
  EXPECT_THROW(message.size(), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::testing
