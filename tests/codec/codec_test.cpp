#include "sluice/codec/codec.h"

#include "support.h"

namespace sluice::testing {
namespace {

using Bytes = std::vector<std::byte>;

class CodecOnBackends : public ::testing::TestWithParam<std::string> {};

TEST_P(CodecOnBackends, CarriesWhatFeedbackSelects) {
  for (const std::string sparsifier :
       {"topk", "adtopk", "tile:two_bit=true", "redsync-quantized", "none"}) {
    for (const std::string spec :
         {"auto", "elias-fano", "bitpack", "raw32", "raw64", "bitmap",
          "auto:values=bf16", "auto:values=fp16"}) {
      Rig::Options o;
      o.backend = GetParam();
      o.sparsifier = sparsifier;
      o.tensors = {{70, 80}, {300}};
      Rig probe(o);
      Codec codec(probe.backend(), spec);
      o.values = codec.values();
      Rig rig(o);
      Codec real(rig.backend(), spec);
      const Sent sent = rig.step(gaussian(rig.size(), 1), 0.02, false);
      Message message;
      real.encode(rig.stream(), rig.feedback().staged(),
                  rig.feedback().values(), rig.feedback().rows(), message);
      EXPECT_LE(message.size,
                Codec::max_bytes(sent.indices.size(), 2) + rig.size() / 8);
      SparseBlock received(rig.backend(), rig.size(), rig.size(), 1);
      real.decode(rig.stream(), {message.bytes.data<std::byte>(), message.size},
                  "rank 1", received);
      ASSERT_EQ(received.count(), sent.indices.size());
      std::vector<std::uint32_t> indices(received.count());
      std::vector<float> values(received.count());
      Backend& b = rig.backend();
      b.copy_out(rig.stream(), std::as_writable_bytes(std::span(indices)),
                 received.indices());
      b.copy_out(rig.stream(), std::as_writable_bytes(std::span(values)),
                 received.values());
      b.wait(b.record(rig.stream()));
      EXPECT_EQ(indices, sent.indices) << sparsifier << " " << spec;
      EXPECT_EQ(values, sent.values) << sparsifier << " " << spec;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, CodecOnBackends,
                         ::testing::Values("fake", "cpu/portable"),
                         [](const auto& b) { return safe_name(b.param); });

TEST(Codec, SaysWhichCheckFailedAndWhoSentIt) {
  auto backend = make_cpu_backend({1, ""});
  auto stream = backend->make_stream();
  Codec codec(*backend);
  SparseBlock out(*backend, 100, 100, 1);
  const Bytes junk(80, std::byte{7});
  try {
    codec.decode(*stream, junk, "rank 3", out);
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
                 "bitpack rows bitmap raw32 raw64");
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
  EXPECT_THROW(codec.encode(rig.stream(), rig.feedback().staged(),
                            ValueForm::kFp32, {}, message),
               std::invalid_argument);
}

}  // namespace
}  // namespace sluice::testing
