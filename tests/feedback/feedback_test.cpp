#include "sluice/feedback/feedback.h"

#include <cmath>
#include <limits>

#include "sluice/core/half.h"
#include "support.h"

namespace sluice::testing {
namespace {

Rig::Options base(std::string feedback, std::vector<Dims> tensors,
                  std::string sparsifier = "topk") {
  Rig::Options o;
  o.feedback = std::move(feedback);
  o.tensors = std::move(tensors);
  o.sparsifier = std::move(sparsifier);
  return o;
}

class FeedbackLaw
    : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

// sent + after = beta * before + gamma * gradient, exactly, for every rule.
TEST_P(FeedbackLaw, ConservesMassWithDecayAndGain) {
  const auto& [sparsifier, backend] = GetParam();
  auto o = base("residual:beta=0.5,gamma=0.25", {{30, 40}, {900}}, sparsifier);
  o.backend = backend;
  Rig rig(o);
  std::vector<float> before = rig.residual();
  for (std::uint64_t step = 0; step < 5; ++step) {
    const auto g = gaussian(rig.size(), step + 1);
    const Sent sent = rig.step(g, 0.05);
    const auto after = rig.residual();
    const auto all = rebuild(sent, after);
    for (std::size_t i = 0; i < g.size(); ++i) {
      const float acc = 0.5F * before[i] + 0.25F * g[i];
      ASSERT_NEAR(all[i], acc, 4e-7 * std::abs(acc) + 1e-7) << i;
    }
    before = after;
  }
}

// What rounding takes off a value stays behind: sent + residual is exact.
TEST_P(FeedbackLaw, KeepsTheRemainderOfRoundedValues) {
  const auto& [sparsifier, backend] = GetParam();
  if (sparsifier == "redsync-quantized") GTEST_SKIP() << "has its own form";
  for (const ValueForm form : {ValueForm::kBf16, ValueForm::kFp16}) {
    auto o = base("residual", {{30, 40}}, sparsifier);
    o.backend = backend;
    o.values = form;
    Rig rig(o);
    std::vector<float> before = rig.residual();
    for (std::uint64_t step = 0; step < 3; ++step) {
      const auto g = gaussian(rig.size(), step + 1, step == 2 ? 1e5F : 1);
      const Sent sent = rig.step(g, 0.05);
      const auto after = rig.residual();
      for (const float v : sent.values) {
        ASSERT_EQ(v, form == ValueForm::kBf16 ? from_bf16(to_bf16(v))
                                              : from_fp16(to_fp16(v)));
        ASSERT_TRUE(std::isfinite(v));
      }
      const auto all = rebuild(sent, after);
      for (std::size_t i = 0; i < g.size(); ++i) {
        ASSERT_EQ(all[i], before[i] + g[i]) << i;
      }
      before = after;
    }
  }
}

// Rollback: before + gradient, nothing sent, and the next step works.
TEST_P(FeedbackLaw, RollbackPutsEverythingBack) {
  const auto& [sparsifier, backend] = GetParam();
  auto o = base("residual", {{30, 40}}, sparsifier);
  o.backend = backend;
  Rig rig(o);
  auto before = gaussian(rig.size(), 99);
  rig.set_residual(before);
  const auto g = gaussian(rig.size(), 1);
  rig.step(g, 0.05, false);
  rig.rollback();
  const auto after = rig.residual();
  for (std::size_t i = 0; i < g.size(); ++i) {
    ASSERT_NEAR(after[i], before[i] + g[i], 1e-6) << i;
  }
  const Sent sent = rig.step(g, 0.05);
  const auto all = rebuild(sent, rig.residual());
  for (std::size_t i = 0; i < g.size(); ++i) {
    ASSERT_NEAR(all[i], before[i] + 2 * g[i], 1e-5) << i;
  }
}

std::vector<std::string> sparsifier_names() {
  std::vector<std::string> names;
  for (const SparsifierEntry& e : sparsifiers()) names.emplace_back(e.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(
    Registry, FeedbackLaw,
    ::testing::Combine(::testing::ValuesIn(sparsifier_names()),
                       ::testing::ValuesIn(device_names())),
    [](const auto& c) {
      return safe_name(std::get<0>(c.param) + "_" + std::get<1>(c.param));
    });

TEST(Feedback, DgcMomentumFollowsTheReference) {
  const std::vector<float> ones(4, 1);
  // Nothing is sent: a threshold nobody reaches.
  const std::string silent = "threshold:value=1e30";
  Rig plain(base("dgc", {{4, 1}}, silent));
  Rig nesterov(base("dgc:nesterov=true", {{4, 1}}, silent));
  const float u[] = {1, 1.9F, 2.71F};
  const float v[] = {1, 2.9F, 5.61F};
  const float nu[] = {.9F, 1.71F, 2.439F};
  const float nv[] = {1.9F, 4.61F, 8.049F};
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(plain.step(ones, 0.25).indices.empty());
    nesterov.step(ones, 0.25);
    EXPECT_NEAR(plain.momentum()[0], u[step], 1e-6);
    EXPECT_NEAR(plain.residual()[0], v[step], 1e-5);
    EXPECT_NEAR(nesterov.momentum()[0], nu[step], 1e-6);
    EXPECT_NEAR(nesterov.residual()[0], nv[step], 1e-5);
  }
}

TEST(Feedback, DgcMasksTheMomentumOfWhatWasCommitted) {
  const std::vector<float> g = {1, 5, 2, 3};
  for (const bool masking : {true, false}) {
    Rig rig(base(masking ? "dgc" : "dgc:masking=false", {{4, 1}}));
    const Sent sent = rig.step(g, 0.25, false);
    EXPECT_EQ(sent.indices, (std::vector<std::uint32_t>{1}));
    EXPECT_EQ(rig.momentum(), g);  // not before the commit
    rig.feedback().commit(rig.stream());
    EXPECT_EQ(rig.momentum()[1], masking ? 0.0F : 5.0F);
    EXPECT_EQ(rig.momentum()[0], 1.0F);
    EXPECT_EQ(rig.residual(), (std::vector<float>{1, 0, 2, 3}));
  }
  Rig rig(base("dgc", {{4, 1}}));
  rig.step(g, 0.25, false);
  rig.rollback();
  EXPECT_EQ(rig.momentum(), g);
  EXPECT_EQ(rig.residual(), g);
}

// A collective has not delivered what it returns as refused: its momentum goes
// on, as that of an entry that was never selected.
TEST(Feedback, DgcKeepsTheMomentumOfWhatWasRefused) {
  const std::vector<float> g = {1, 5, 2, 3, 7, 4};
  for (const std::string& backend : device_names()) {
    auto o = base("dgc", {{2, 1}, {4, 1}});
    o.backend = backend;
    Rig rig(o);
    const Sent sent = rig.step(g, 0.5, false);
    ASSERT_EQ(sent.indices, (std::vector<std::uint32_t>{1, 4, 5}));
    SparseBlock refused(rig.backend(), rig.size(), 0, 1);
    refused.assign(rig.backend(), rig.stream(),
                   std::vector<std::uint32_t>{1, 5}, std::vector<float>{5, 4});
    // Part of another entry came back: that one has been delivered.
    SparseBlock part(rig.backend(), rig.size(), 0, 1);
    part.assign(rig.backend(), rig.stream(), std::vector<std::uint32_t>{4},
                std::vector<float>{0.5F});
    const std::vector<SparseView> returned = {refused.view(), part.view()};
    rig.feedback().commit(rig.stream(), returned, 1);
    EXPECT_EQ(rig.momentum(), (std::vector<float>{1, 5, 2, 3, 0, 4}));
    EXPECT_EQ(rig.residual(), (std::vector<float>{1, 5, 2, 3, 0.5F, 4}));
  }
}

TEST(Feedback, DgcClipsLocally) {
  // Norm 5, limit 10 / sqrt(16) = 2.5: half of everything.
  Rig rig(base("dgc:clip=10,workers=16", {{2, 1}}, "threshold:value=1e30"));
  rig.step(std::vector<float>{3, 4}, 0.5);
  EXPECT_NEAR(rig.residual()[0], 1.5, 1e-5);
  EXPECT_NEAR(rig.residual()[1], 2.0, 1e-5);
  Rig small(base("dgc:clip=10", {{2, 1}}, "threshold:value=1e30"));
  small.step(std::vector<float>{3, 4}, 0.5);
  EXPECT_EQ(small.residual(), (std::vector<float>{3, 4}));
}

TEST(Feedback, DgcKeepsOldValuesWhereTheGradientIsNotFinite) {
  Rig rig(base("dgc", {{3, 1}}, "threshold:value=1e30"));
  rig.step(std::vector<float>{1, 1, 1}, 0.5);
  const Sent sent = rig.step(
      std::vector<float>{1, std::numeric_limits<float>::infinity(), 1}, 0.5);
  EXPECT_EQ(sent.report.nonfinite, 1U);
  EXPECT_EQ(rig.residual()[1], 1.0F);
  EXPECT_EQ(rig.momentum()[1], 1.0F);
}

TEST(Feedback, TensorsWithoutResidualLoseAndReportMass) {
  auto o = base("residual", {{10, 10}});
  o.keeps_residual = false;
  Rig rig(o);
  const auto g = gaussian(100, 1);
  const Sent sent = rig.step(g, 0.1);
  EXPECT_GT(sent.report.lost, 0);
  EXPECT_EQ(rig.residual(), std::vector<float>(100, 0));
}

TEST(Feedback, StepsAreTransactions) {
  Rig rig(base("residual", {{10, 10}}));
  const auto g = gaussian(100, 1);
  EXPECT_THROW(rig.feedback().commit(rig.stream()), std::logic_error);
  EXPECT_THROW(rig.rollback(), std::logic_error);
  rig.step(g, 0.1, false);
  EXPECT_THROW(rig.step(g, 0.1), std::logic_error);
  rig.rollback();
  EXPECT_NO_THROW(rig.step(g, 0.1));
}

// A 3 x 4 tensor on the CPU, whose residual can be looked at directly.
class SmallFeedback : public ::testing::Test {
 protected:
  SmallFeedback() { bucket.add(0, {3, 4, 1}, 0); }

  std::unique_ptr<Backend> backend = make_cpu_backend({1, ""});
  std::unique_ptr<Stream> stream = backend->make_stream();
  Arena arena{*backend, 12};
  Bucket bucket;
};

TEST_F(SmallFeedback, TakesViewsOfAnyLayout) {
  auto feedback = make_feedback(
      "residual", {*backend, arena, bucket, make_sparsifier("topk")});
  // A transposed 4 x 3 matrix, a misaligned one, and one of bf16.
  std::vector<float> transposed(12);
  for (std::size_t i = 0; i < 12; ++i) transposed[i] = float(i) - 5;
  TensorView view = contiguous_view(transposed.data(), Dims{3, 4});
  view.strides = {1, 3};
  feedback->select(*stream, {&view, 1}, {0, 1, 0.25, 0});
  feedback->rollback(*stream);
  std::vector<float> expected(12);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      expected[i * 4 + j] = transposed[j * 3 + i];
    }
  }
  std::vector<float> got(arena.residual(), arena.residual() + 12);
  EXPECT_EQ(got, expected);

  std::vector<std::byte> raw(12 * 4 + 1);
  std::memcpy(raw.data() + 1, expected.data(), 48);
  view = contiguous_view(raw.data() + 1, Dims{3, 4});
  feedback->select(*stream, {&view, 1}, {1, 1, 0.25, 0});
  feedback->rollback(*stream);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(arena.residual()[i], 2 * expected[i]);
  }

  std::vector<std::uint16_t> half(12, to_bf16(1.5F));
  view = contiguous_view(half.data(), Dims{3, 4}, DType::kBf16);
  feedback->select(*stream, {&view, 1}, {2, 1, 0.25, 0});
  feedback->rollback(*stream);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(arena.residual()[i], 2 * expected[i] + 1.5F);
  }
}

TEST_F(SmallFeedback, RejectsViewsThatDoNotFit) {
  auto feedback = make_feedback(
      "residual", {*backend, arena, bucket, make_sparsifier("topk")});
  std::vector<float> g(11);
  const TensorView view = flat_view(g);
  EXPECT_THROW(feedback->select(*stream, {&view, 1}, {0, 1, 0.1, 0}),
               std::invalid_argument);
  EXPECT_THROW(feedback->select(*stream, {}, {0, 1, 0.1, 0}),
               std::invalid_argument);
  Bucket outside;
  outside.add(0, {3, 4, 1}, 1);
  EXPECT_THROW(make_feedback("residual", {*backend, arena, outside,
                                          make_sparsifier("topk")}),
               std::invalid_argument);
}

TEST(Feedback, UnknownNamesAndParametersListWhatExists) {
  auto backend = make_cpu_backend({1, ""});
  Arena arena(*backend, 12);
  Bucket bucket;
  const Feedback::Setup setup = {*backend, arena, bucket,
                                 make_sparsifier("topk")};
  try {
    make_feedback("residul", setup);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(),
                 "[make_feedback] no feedback 'residul'; known: none residual "
                 "dgc");
  }
  try {
    make_feedback("residual:alpha=1", setup);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(),
                 "[feedback 'residual'] no parameter 'alpha'; known: beta "
                 "gamma");
  }
}

}  // namespace
}  // namespace sluice::testing
