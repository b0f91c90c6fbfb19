#include "sluice/backend/backend.h"
#include "support.h"

namespace sluice::testing {
namespace {

// Selections of a bucket as a CUDA graph.
class Capture : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  }
  // Rows of many lengths, a convolution, a vector, something large and nothing.
  static Rig::Options options(const std::string& sparsifier) {
    Rig::Options o;
    o.backend = "cuda";
    o.sparsifier = sparsifier;
    o.tensors = {{40, 64}, {12, 300},  {8, 1024}, {3, 5000}, {16, 32, 3, 3},
                 {77},     {250, 400}, {0},       {5, 7, 2}};
    return o;
  }
  static void expect_alike(Rig& replayed, Rig& run) {
    const Sent expected = run.sent();
    const Sent got = replayed.sent();
    EXPECT_EQ(got.indices, expected.indices);
    EXPECT_EQ(got.values, expected.values);
    EXPECT_EQ(got.report.selected, expected.report.selected);
    EXPECT_EQ(replayed.residual(), run.residual());
  }
};

TEST_P(Capture, ReplaysASelectionWithOtherGradients) {
  constexpr double kDensity = 0.02;
  Rig run(options(GetParam()));
  Rig replayed(options(GetParam()));
  const auto gradients = [&](std::uint64_t step) {
    return gaussian(run.size(), step, 1 + 0.1F * static_cast<float>(step));
  };
  for (std::uint64_t step = 0; step < 3; ++step) {
    run.step(gradients(step), kDensity);
    replayed.step(gradients(step), kDensity);
  }
  const std::function<void()> replay =
      cuda_capture(replayed.stream(), [&] { replayed.select(kDensity); });
  const std::uint64_t captured = run.steps;
  for (std::uint64_t step = 3; step < 7; ++step) {
    // A graph brings the arguments of the step that it was made of.
    run.steps = captured;
    run.set_gradients(gradients(step));
    replayed.set_gradients(gradients(step));
    run.select(kDensity);
    replay();
    expect_alike(replayed, run);
    run.commit();
  }
}

// Whatever the stream is given between two replays.
TEST_P(Capture, SharesTheStreamWithOtherSelections) {
  constexpr double kDensity = 0.05;
  Rig rig(options(GetParam()));
  Rig other(options(GetParam()));
  const auto g = gaussian(rig.size(), 5);
  rig.step(g, kDensity);
  other.step(g, kDensity);
  const std::function<void()> replay =
      cuda_capture(rig.stream(), [&] { rig.select(kDensity); });
  for (int round = 0; round < 3; ++round) {
    other.steps = rig.steps - 1;
    rig.set_gradients(g);
    replay();
    const Sent got = rig.sent();
    const Sent expected = other.step(g, kDensity);
    EXPECT_EQ(got.indices, expected.indices);
    EXPECT_EQ(got.values, expected.values);
    // Enough to go round the memory that arguments travel through.
    const auto* bytes = reinterpret_cast<const std::byte*>(g.data());
    const Buffer room = rig.backend().allocate(1 << 18);
    for (int i = 0; i < 40; ++i) {
      rig.backend().copy_in(rig.stream(), room.data(), {bytes, 1 << 18});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(cuda, Capture,
                         ::testing::Values("topk", "adtopk", "tile", "randomk",
                                           "dgc", "sidco-p"),
                         [](const auto& test) {
                           return safe_name(test.param);
                         });

}  // namespace
}  // namespace sluice::testing
