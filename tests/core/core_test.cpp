#include <cmath>
#include <limits>
#include <set>

#include "files.h"
#include "sluice/core/bucket.h"
#include "sluice/core/half.h"
#include "sluice/core/hash.h"
#include "sluice/core/key.h"
#include "sluice/core/params.h"
#include "sluice/core/permutation.h"
#include "sluice/core/view.h"
#include "sluice/sparsify/adtopk.h"
#include "sluice/sparsify/exceptions.h"
#include "sluice/sparsify/schedule.h"
#include "support.h"

namespace sluice::testing {
namespace {

TEST(Key, ThresholdKeysRoundToTheRightSide) {
  EXPECT_EQ(threshold_key(1.0), magnitude_key(1.0F));
  EXPECT_EQ(above_key(1.0), magnitude_key(1.0F) + 1);
  EXPECT_EQ(threshold_key(1.0 + 1e-12), magnitude_key(1.0F) + 1);
  EXPECT_EQ(above_key(1.0 + 1e-12), magnitude_key(1.0F) + 1);
  EXPECT_EQ(threshold_key(0), 0U);
  EXPECT_EQ(above_key(0), 1U);
  EXPECT_EQ(above_key(-1), 0U);
  EXPECT_EQ(threshold_key(1e300), kInfKey);
  EXPECT_EQ(threshold_key(std::nan("")), kInfKey);
  EXPECT_EQ(threshold_key(double(std::numeric_limits<float>::max())),
            kInfKey - 1);
}

TEST(Half, RoundsToNearestEvenAndSaturates) {
  EXPECT_EQ(from_bf16(to_bf16(1.0F)), 1.0F);
  EXPECT_EQ(from_bf16(to_bf16(1.00390625F)), 1.0F);  // tie to even
  EXPECT_EQ(from_bf16(to_bf16(1.01171875F)), 1.015625F);
  EXPECT_TRUE(
      std::isfinite(from_bf16(to_bf16(std::numeric_limits<float>::max()))));
  EXPECT_EQ(from_fp16(to_fp16(1e6F)), 65504.0F);
  EXPECT_EQ(from_fp16(to_fp16(-1e6F)), -65504.0F);
  EXPECT_EQ(from_fp16(to_fp16(65504.0F)), 65504.0F);
  EXPECT_TRUE(std::isnan(from_fp16(to_fp16(std::nanf("")))));
  EXPECT_TRUE(
      std::isinf(from_fp16(to_fp16(std::numeric_limits<float>::infinity()))));
  // Every half survives the way through fp32.
  for (std::uint32_t h = 0; h < 0x7c00; ++h) {
    const auto half = static_cast<std::uint16_t>(h);
    ASSERT_EQ(to_fp16(from_fp16(half)), half) << h;
  }
  // Rounding between halves agrees with arithmetic in double.
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const float x = std::ldexp(static_cast<float>(mix64(i) % 4096 + 1),
                               static_cast<int>(mix64(i, 1) % 38) - 36);
    if (x > 65504) continue;
    const int exponent = std::max(std::ilogb(x), -14);
    const double unit = std::ldexp(1.0, exponent - 10);
    ASSERT_EQ(from_fp16(to_fp16(x)), std::nearbyint(double(x) / unit) * unit)
        << x;
  }
}

TEST(Shape, ViewsAnyTensorAsThreeDimensions) {
  EXPECT_EQ(shape3(Dims{}), (Shape3{1, 1, 1}));
  EXPECT_EQ(shape3(Dims{7}), (Shape3{1, 7, 1}));
  EXPECT_EQ(shape3(Dims{4, 5}), (Shape3{4, 5, 1}));
  EXPECT_EQ(shape3(Dims{64, 3, 7, 7}), (Shape3{64, 3, 49}));
  EXPECT_EQ(shape3(Dims{0, 5}).size(), 0U);
  // Beyond 2^31 and 2^32 elements.
  EXPECT_EQ(shape3(Dims{50000, 60000}).size(), 3'000'000'000U);
  EXPECT_EQ(shape3(Dims{100000, 100000}).size(), 10'000'000'000U);
  EXPECT_THROW(shape3(Dims{1UL << 40, 1UL << 40}), std::invalid_argument);
}

TEST(View, SlicesRowsOfAnyStrides) {
  std::vector<float> data(24);
  const std::vector<std::size_t> dims = {4, 3, 2};
  TensorView view = contiguous_view(data.data(), dims);
  view.strides = {1, 8, 4};
  const TensorView slice = slice_rows(view, 1, 3);
  EXPECT_EQ(slice.data, data.data() + 1);
  EXPECT_EQ(slice.size(), 12U);
  EXPECT_EQ(slice.dims[0], 2U);
  EXPECT_EQ(slice.strides, view.strides);
  const TensorView narrow =
      slice_rows(contiguous_view(data.data(), dims, DType::kBf16), 2, 4);
  EXPECT_EQ(narrow.data, reinterpret_cast<std::byte*>(data.data()) + 24);
  EXPECT_EQ(slice_rows(view, 4, 4).size(), 0U);
  EXPECT_THROW(slice_rows(view, 2, 5), std::invalid_argument);
  EXPECT_THROW(slice_rows(view, 2, 1), std::invalid_argument);
  // A scalar has one row.
  const TensorView scalar = contiguous_view(data.data(), {});
  EXPECT_EQ(slice_rows(scalar, 0, 1).size(), 1U);
  EXPECT_EQ(slice_rows(scalar, 1, 1).size(), 0U);
}

TEST(Bucket, RefusesMoreElementsThanIndicesReach) {
  Bucket bucket;
  bucket.add(0, {1, 3'000'000'000, 1}, 0);
  EXPECT_EQ(bucket.size(), 3'000'000'000U);
  bucket.add(1, {1, 1'294'967'296, 1}, 3'000'000'000);
  EXPECT_EQ(bucket.segments()[1].base, 3'000'000'000U);
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              bucket.add(2, {1, 1, 1}, 0);
            }),
            "[bucket] a bucket may have at most 2^32 elements, got 4294967296 "
            "and a tensor of 1; split it into several buckets");
}

// Budgets, rows and draws of tensors that nobody allocates here.
TEST(Arithmetic, HoldsBeyondThirtyTwoBits) {
  constexpr std::uint64_t kHuge = 3'000'000'000;
  EXPECT_EQ(make_sparsifier("topk")->budget(kHuge, 0.01), 30'000'000U);
  EXPECT_EQ(make_sparsifier("dgc")->budget(kHuge + 1, 0.01), 30'000'001U);
  SegmentTask task;
  task.facts.n = kHuge;
  task.facts.density = 0.001;
  make_sparsifier("adtopk")->plan({50'000, 60'000, 1}, task);
  EXPECT_EQ(task.rows.k, 60U);
  EXPECT_EQ(task.capacity, 3'000'000U);
  make_sparsifier("tile")->plan({50'000, 60'000, 1}, task);
  EXPECT_EQ(task.rows.k, 4U);
  EXPECT_EQ(task.capacity, 782U * 938 * 4);
  const Permutation permutation(kHuge, 1);
  std::set<std::uint64_t> seen;
  std::uint64_t above = 0;
  for (std::uint64_t j = 0; j < 1000; ++j) {
    const std::uint64_t i = permutation(j);
    EXPECT_LT(i, kHuge);
    above += i >= std::uint64_t{1} << 31 ? 1 : 0;
    seen.insert(i);
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_GT(above, 200U);
}

TEST(Budget, TruncatesTheProductInDouble) {
  const auto topk = make_sparsifier("topk");
  EXPECT_EQ(topk->budget(100, 0.29), 28U);
  EXPECT_EQ(topk->budget(1000, 0.01), 10U);
  EXPECT_EQ(topk->budget(5, 0.01), 1U);
  EXPECT_EQ(topk->budget(0, 0.01), 0U);
  EXPECT_EQ(topk->budget(7, 1), 7U);
  EXPECT_EQ(make_sparsifier("dgc")->budget(100, 0.07), 8U);
}

TEST(Params, SpecsReadAsTextOrJson) {
  const Spec plain = parse_spec("topk");
  EXPECT_EQ(plain.name, "topk");
  EXPECT_TRUE(plain.params.empty());
  const Spec text = parse_spec("dgc:upper=1.5,resample=false");
  EXPECT_EQ(text.name, "dgc");
  EXPECT_EQ(text.params[1].second, "false");
  const Spec json =
      parse_spec(R"({"name":"dgc","upper":1.5,"resample":false})");
  EXPECT_EQ(json.name, "dgc");
  ASSERT_EQ(json.params.size(), 2U);
  for (const std::string bad :
       {"", ":a=1", "dgc:", "dgc:upper", "dgc:=3", "{", "{\"upper\":1}",
        "{\"name\":\"dgc\",\"upper\":[1]}", "{\"name\":3}"}) {
    EXPECT_THROW(parse_spec(bad), std::invalid_argument) << bad;
  }
  const std::string deep =
      R"({"name": "dgc", "upper": )" + std::string(100'000, '[');
  for (const std::string& bad :
       {deep, deep + std::string(100'000, ']') + "}"}) {
    EXPECT_THROW(parse_spec(bad), std::invalid_argument);
  }
}

TEST(Params, MistakesListWhatExists) {
  std::string known;
  for (const SparsifierEntry& entry : sparsifiers()) {
    known += " " + std::string(entry.name);
  }
  EXPECT_EQ(message_of<std::invalid_argument>([] { make_sparsifier("topkk"); }),
            "[make_sparsifier] no sparsifier 'topkk'; known:" + known);
  EXPECT_EQ(
      message_of<std::invalid_argument>([] { make_sparsifier("dgc:uper=1"); }),
      "[sparsifier 'dgc'] no parameter 'uper'; known: sample_ratio upper "
      "lower rounds resample");
  EXPECT_EQ(
      message_of<std::invalid_argument>([] { make_sparsifier("topk:k=1"); }),
      "[sparsifier 'topk'] no parameter 'k'; it has none");
  EXPECT_EQ(message_of<std::invalid_argument>(
                [] { make_sparsifier("dgc:upper=abc"); }),
            "[sparsifier 'dgc'] parameter 'upper' must be a number, got 'abc'");
  EXPECT_EQ(
      message_of<std::invalid_argument>([] { make_sparsifier("dgc:lower=2"); }),
      "[sparsifier 'dgc'] parameter 'lower' must lie in [0.01, 1], got "
      "2");
  EXPECT_EQ(message_of<std::invalid_argument>(
                [] { make_sparsifier("dgc:resample=1"); }),
            "[sparsifier 'dgc'] parameter 'resample' must be true or false, "
            "got '1'");
  EXPECT_EQ(message_of<std::invalid_argument>(
                [] { make_sparsifier("adtopk:dim=2"); }),
            "[sparsifier 'adtopk'] parameter 'dim' must be one of 1 0 longer, "
            "got '2'");
  EXPECT_EQ(message_of<std::invalid_argument>(
                [] { make_sparsifier("dgc:upper=nan"); }),
            "[sparsifier 'dgc'] parameter 'upper' must lie in [1, inf], got "
            "nan");
}

TEST(Registry, EveryEntryCanBeMadeFromItsOwnDescription) {
  for (const SparsifierEntry& entry : sparsifiers()) {
    const Description d = entry.describe();
    std::string spec(d.name);
    char separator = ':';
    for (const auto& p : d.parameters) {
      spec += separator + p.name + "=" + p.value;
      separator = ',';
      EXPECT_FALSE(p.doc.empty());
    }
    EXPECT_EQ(make_sparsifier(spec)->name(), entry.name);
    EXPECT_FALSE(d.summary.empty());
  }
}

void expect_schedule(std::string_view text, double target,
                     std::vector<double> expected) {
  const DensitySchedule schedule(text, target);
  for (std::size_t e = 0; e < expected.size(); ++e) {
    EXPECT_NEAR(schedule.density(e), expected[e], 1e-6) << text << " " << e;
  }
}

TEST(DensitySchedule, FollowsTheReference) {
  expect_schedule("", 0.01, {0.01, 0.01});
  expect_schedule("warmup:epochs=5", 0.001,
                  {0.316228, 0.1, 0.031623, 0.01, 0.003162, 0.001, 0.001});
  expect_schedule("warmup:epochs=4", 0.001,
                  {0.251189, 0.063096, 0.015849, 0.003981, 0.001});
  expect_schedule("0.25,0.0625,0.015625,0.004,0.001", 0.001,
                  {0.25, 0.0625, 0.015625, 0.004, 0.001, 0.001});
  expect_schedule("dense:epochs=5", 0.001, {1, 1, 1, 1, 1, 0.001});
  for (const std::string bad :
       {"warmup", "warmup:epochs=0", "warmup:epochs=-1", "warmup:steps=3",
        "0.1,,0.2", "0.1,2", "0", "linear:epochs=3", "dense:epochs=x"}) {
    EXPECT_THROW(DensitySchedule(bad, 0.01), std::invalid_argument) << bad;
  }
  EXPECT_THROW(DensitySchedule("", 0), std::invalid_argument);
  EXPECT_THROW(DensitySchedule("", std::nan("")), std::invalid_argument);
}

TEST(Exceptions, PatternsMatchWholeNames) {
  EXPECT_TRUE(matches("fc", "fc"));
  EXPECT_FALSE(matches("fc", "mlp.c_fc"));
  EXPECT_TRUE(matches("*fc", "mlp.c_fc"));
  EXPECT_TRUE(matches("features.?.weight", "features.0.weight"));
  EXPECT_FALSE(matches("features.?.weight", "features.10.weight"));
  EXPECT_TRUE(matches("*a*b*", "xxaybzz"));
  EXPECT_FALSE(matches("*a*b*", "xxbyazz"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_FALSE(matches("", "x"));
}

TEST(Exceptions, SayWhatHappensToWhichTensor) {
  const std::vector<TensorInfo> tensors = {{"conv1.weight", {64, 3, 7, 7}},
                                           {"conv1.bias", {64}},
                                           {"fc.weight", {10, 512}},
                                           {"tiny", {2, 2}}};
  const auto defaults = Exceptions{}.resolve(tensors);
  EXPECT_FALSE(defaults[0].dense);
  EXPECT_TRUE(defaults[1].dense);
  const auto some = Exceptions{{"conv1.w*"}, {"fc.*"}, 10, 0}.resolve(tensors);
  EXPECT_TRUE(some[0].dense);
  EXPECT_FALSE(some[1].dense);
  EXPECT_FALSE(some[2].keeps_residual);
  EXPECT_TRUE(some[3].dense);
}

TEST(Exceptions, MistakesAreErrors) {
  const std::vector<TensorInfo> tensors = {{"fc.weight", {10, 512}}};
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              Exceptions{{"fc"}, {}, 0, 1}.resolve(tensors);
            }),
            "[exceptions] pattern 'fc' of 'dense' must match a tensor, matches "
            "none of 1; patterns match whole names, with * and ?");
}

// The effective density of ADTopk; docs/algorithms.md: a linear layer
// and a convolution of ResNet-50.
TEST(Adtopk, FloorsAtOnePerRow) {
  EXPECT_EQ(adtopk_rows({256, 64, 1}, "1", 0.001).k, 1U);
  EXPECT_EQ(adtopk_rows({256, 64, 9}, "1", 0.05).k, 3U);
  EXPECT_EQ(adtopk_rows({2048, 512, 1}, "longer", 0.01).length, 2048U);
  EXPECT_EQ(adtopk_rows({512, 2048, 1}, "longer", 0.01).length, 2048U);
  EXPECT_EQ(adtopk_rows({64, 3, 49}, "0", 0.1).stride, 147U);
}

}  // namespace
}  // namespace sluice::testing
