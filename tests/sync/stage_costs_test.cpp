#include "sluice/sync/stage_costs.h"

#include "fake_device.h"
#include "support.h"

namespace sluice::testing {
namespace {

TEST(StageCosts, HasARowForEveryStageAndMethod) {
  auto backend = make_cpu_backend({1, "portable"});
  auto clock = make_cpu_clock(1);
  CostQuery query;
  query.sparsifiers = {"topk", "dgc:upper=1.5"};
  query.largest = std::size_t{1} << 17;
  Profile profile;
  profile.model = "any";
  profile.tensors = {{"w", 10, {10}, 1e-3, 0}};
  profile.costs = measure_costs(*backend, *clock, query);
  check_profile(profile);
  EXPECT_EQ(profile_from_json(to_json(profile)), profile);
  for (const auto& [what, method] : {std::pair{"select", "topk"},
                                     {"select", "dgc"},
                                     {"select", "none"},
                                     {"encode", "topk"},
                                     {"decode", "dgc"},
                                     {"apply", "topk"},
                                     {"apply", "none"},
                                     {"sum", "none"}}) {
    const CostCurve* curve = profile.find(what, method, "cpu");
    ASSERT_NE(curve, nullptr) << what << " " << method;
    EXPECT_GT(curve->at(1000), 0) << what << " " << method;
  }
  // Eight times the elements, of which every one is read.
  const CostCurve& sum = *profile.find("sum", "none", "cpu");
  EXPECT_EQ(sum.points().front().size, 1 << 14);
  EXPECT_EQ(sum.points().back().size, 1 << 17);
}

// Runs what it times, on a device whose work waits to be waited for.
class WaitingClock final : public Clock {
 public:
  explicit WaitingClock(Backend& backend) : backend_(backend) {}
  double time(Stream& stream, const std::function<void()>& enqueue) override {
    enqueue();
    backend_.wait(backend_.record(stream));
    return 1e-3;
  }
  double floor(Stream&, float*, const float*, std::size_t n) override {
    return 1e-9 * double(n);
  }

 private:
  Backend& backend_;
};

// What a plan needs that lets the host select.
TEST(StageCosts, OfADeviceHasCopiesAndTheHostsToo) {
  auto backend = make_fake_device_backend({1, "portable"});
  WaitingClock clock(*backend);
  CostQuery query;
  query.sparsifiers = {"topk"};
  query.largest = std::size_t{1} << 17;
  query.device = "cuda";
  Profile profile;
  profile.model = "any";
  profile.tensors = {{"w", 10, {10}, 1e-3, 0}};
  profile.costs = measure_costs(*backend, clock, query);
  check_profile(profile);
  for (const char* device : {"cpu", "cuda"}) {
    for (const char* what : {"select", "apply", "encode", "decode", "sum"}) {
      EXPECT_NE(profile.find(what, "topk", device), nullptr) << what << device;
    }
  }
  ASSERT_NE(profile.find("copy", "topk", "cuda"), nullptr);
  EXPECT_EQ(profile.find("copy", "topk", "cuda")->at(1 << 14), 1e-3);
  EXPECT_EQ(profile.find("copy", "topk", "cpu"), nullptr);
}

}  // namespace
}  // namespace sluice::testing
