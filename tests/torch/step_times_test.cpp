#include "sluice/torch/step_times.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sluice/torch/train/adapter.h"

namespace sluice {
namespace {

std::vector<TensorInfo> three_tensors() {
  return {{"a", {4, 3}}, {"b", {5}}, {"c", {2, 2, 2}}};
}

// A step whose gradients are there in this order.
bool take_step(StepTimes& times, const std::vector<std::size_t>& order) {
  const bool seen = times.begin();
  times.begin_backward();
  for (const std::size_t i : order) times.ready(i);
  times.begin_update();
  times.end();
  return seen;
}

TEST(StepTimes, LooksAtSoManyStepsAfterTheFirst) {
  StepTimes times(three_tensors(), torch::kCPU, 4);
  std::vector<bool> seen;
  for (int step = 0; step < 11; ++step) {
    seen.push_back(take_step(times, {2, 1, 0}));
    EXPECT_EQ(times.complete(), step >= 7) << step;
  }
  const std::vector<bool> expected = {false, false, false, false, false, true,
                                      true,  true,  true,  false, false};
  EXPECT_EQ(seen, expected);
}

TEST(StepTimes, TellsTensorsInForwardOrder) {
  StepTimes times(three_tensors(), torch::kCPU, 3);
  for (int step = 0; step < 8; ++step) take_step(times, {2, 1, 0});
  const Profile profile = times.profile();
  ASSERT_EQ(profile.tensors.size(), 3U);
  EXPECT_EQ(profile.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(profile.tensors[0].elements, 12U);
  EXPECT_EQ(profile.tensors[2].shape, (std::vector<std::size_t>{2, 2, 2}));
  EXPECT_GT(profile.backward(), 0);
  check_profile(profile);
}

// One that came before its turn has waited for those that should have come
// first: its own part is nothing.
TEST(StepTimes, CountsWhatCameEarlyAsNothing) {
  StepTimes times(three_tensors(), torch::kCPU, 3);
  for (int step = 0; step < 8; ++step) take_step(times, {0, 2, 1});
  const Profile profile = times.profile();
  EXPECT_EQ(profile.tensors[0].backward, 0);
  EXPECT_GT(profile.tensors[2].backward, 0);
}

TEST(StepTimes, LeavesOutStepsWithoutAllGradients) {
  StepTimes times(three_tensors(), torch::kCPU, 3);
  for (int step = 0; step < 20; ++step) take_step(times, {2, 0});
  EXPECT_FALSE(times.complete());
}

// Without a sync, too, and only for as long as somebody looks.
TEST(AutogradAdapter, TellsWhoWatchesOfEveryGradient) {
  torch::Tensor a = torch::ones({3}).requires_grad_();
  torch::Tensor b = torch::ones({3}).requires_grad_();
  AutogradAdapter adapter(NamedTensors{{"a", a}, {"b", b}});
  std::vector<int> seen(2);
  const auto backward = [&] {
    adapter.clear();
    adapter.begin();
    (a * b).sum().backward();
    adapter.finish();
  };
  backward();
  EXPECT_EQ(seen, (std::vector<int>{0, 0}));
  adapter.watch([&](std::size_t i) { ++seen[i]; });
  backward();
  EXPECT_EQ(seen, (std::vector<int>{1, 1}));
  adapter.watch({});
  backward();
  EXPECT_EQ(seen, (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace sluice
