#include "sluice/config/lr_schedule.h"

#include <cmath>
#include <limits>

#include "files.h"
#include "sluice/config/number_list.h"

namespace sluice::testing {
namespace {

using Invalid = std::invalid_argument;

// Four workers, ten steps per epoch, 100 epochs, a base rate of 2.
constexpr LrContext kContext = {2, 4, 10, 100};

double rate(std::string_view text, double epoch) {
  return make_lr_schedule(text, kContext)
      ->rate(static_cast<std::uint64_t>(std::lround(epoch * 10)));
}

std::string complaint(std::string_view text) {
  return message_of<Invalid>([&] { make_lr_schedule(text, kContext); });
}

TEST(NumberList, TakesNumbersJoinedByDashes) {
  EXPECT_EQ(parse_number_list("x", "30-60.5-80"),
            (std::vector<double>{30, 60.5, 80}));
  EXPECT_EQ(parse_number_list("x", "7"), (std::vector<double>{7}));
  EXPECT_TRUE(parse_number_list("x", "").empty());
  for (const char* bad : {"-", "1-", "-1", "1--2", "a", "1e3", "1 2", "1,2"}) {
    EXPECT_EQ(message_of<Invalid>([&] { parse_number_list("[op] x", bad); }),
              std::string("[op] x must be numbers joined by '-', as in "
                          "30-60-80, got '") +
                  bad + "'");
  }
}

TEST(LrSchedule, ConstantStays) {
  EXPECT_EQ(rate("constant", 0), 2);
  EXPECT_EQ(rate("constant", 1e6), 2);
  EXPECT_EQ(rate("constant:per_worker=true", 1), 8);
}

TEST(LrSchedule, StepsGoDownAtTheirEpochs) {
  const char* text = "steps:at=30-60-80,factor=0.5";
  EXPECT_EQ(rate(text, 29.9), 2);
  EXPECT_EQ(rate(text, 30), 1);
  EXPECT_EQ(rate(text, 60), 0.5);
  EXPECT_EQ(rate(text, 1000), 0.25);
  EXPECT_EQ(rate("steps:at=", 50), 2);
  EXPECT_EQ(rate("steps:at=0.5", 0.5), 0.2);
}

// PTB in the published trainers.
TEST(LrSchedule, StepsTakeAShareForEach) {
  const char* text = "steps:at=63-80,factors=0.01-0.001";
  EXPECT_EQ(rate(text, 62.9), 2);
  EXPECT_EQ(rate(text, 63), 0.02);
  EXPECT_EQ(rate(text, 79.9), 0.02);
  EXPECT_EQ(rate(text, 80), 0.002);
  EXPECT_EQ(complaint("steps:at=63-80,factors=0.1"),
            "[lr_schedule 'steps'] parameter 'factors' must be 2 shares in [0, "
            "1], one for each of '63-80', got '0.1'");
  EXPECT_CONTAINS(complaint("steps:at=1,factors=2"), "1 shares in [0, 1]");
}

// Published: base / P to base; P-scaled, (e (P - 1) / W + 1) / P; and from
// base / (W * steps per epoch).
TEST(LrSchedule, WarmsUpAsThePapersDo) {
  const char* from_workers = "constant:warmup=5";
  EXPECT_EQ(rate(from_workers, 0), 0.5);
  EXPECT_EQ(rate(from_workers, 2.5), 1.25);
  EXPECT_EQ(rate(from_workers, 5), 2);
  const char* scaled = "constant:warmup=5,per_worker=true";
  for (const double e : {0.0, 0.1, 1.0, 4.9, 5.0}) {
    const double expected = 8 * (e * (4 - 1) / 5 + 1) / 4;
    EXPECT_DOUBLE_EQ(rate(scaled, e), expected);
  }
  const char* from_step = "constant:warmup=5,warmup_from=step";
  EXPECT_DOUBLE_EQ(rate(from_step, 0), 2.0 / 50);
  EXPECT_DOUBLE_EQ(rate(from_step, 0.1), 2.0 * 2 / 50);
  EXPECT_DOUBLE_EQ(rate(from_step, 4.9), 2);
  EXPECT_DOUBLE_EQ(rate("constant:warmup=10,warmup_from=0.1", 5), 1.1);
}

TEST(LrSchedule, WarmsUpForAShareOfTheRun) {
  // BERT's: x / 0.1 up to a tenth of the run, then (1 - x) / 0.9.
  const char* text = "linear:warmup_share=0.1,warmup_from=0";
  for (const double x : {0.0, 0.05, 0.1, 0.2, 0.55, 1.0}) {
    const double expected = x < 0.1 ? x / 0.1 : (1 - x) / 0.9;
    EXPECT_NEAR(rate(text, 100 * x), 2 * expected, 1e-12) << x;
  }
  EXPECT_EQ(complaint("linear:warmup=2,warmup_share=0.1"),
            "[lr_schedule] warmup and warmup_share must not both be given, got "
            "2 epochs and a share of 0.1; warmup=2 is 2 epochs, "
            "warmup_share=0.1 a tenth of the run");
}

TEST(LrSchedule, WarmUpAndStepsMultiply) {
  const char* text = "steps:at=2,factor=0.1,warmup=4,warmup_from=0";
  EXPECT_DOUBLE_EQ(rate(text, 1), 0.5);
  EXPECT_DOUBLE_EQ(rate(text, 3), 0.15);
}

TEST(LrSchedule, CosineRunsFromWarmUpToEnd) {
  EXPECT_EQ(rate("cosine", 0), 2);
  EXPECT_DOUBLE_EQ(rate("cosine", 50), 1);
  EXPECT_NEAR(rate("cosine", 100), 0, 1e-15);
  EXPECT_NEAR(rate("cosine", 1000), 0, 1e-15);
  EXPECT_EQ(rate("cosine:warmup=20", 20), 2);
  EXPECT_DOUBLE_EQ(rate("cosine:warmup=20", 60), 1);
  EXPECT_DOUBLE_EQ(rate("cosine:epochs=10,to=0.5", 10), 1);
  // A warm-up that is too long for the run.
  EXPECT_EQ(rate("cosine:warmup=200,warmup_most=0.2", 20), 2);
  EXPECT_DOUBLE_EQ(rate("cosine:warmup=200,warmup_most=0.2", 60), 1);
  EXPECT_EQ(rate("cosine:warmup=10,warmup_most=0.2", 10), 2);
}

TEST(LrSchedule, LinearRunsFromWarmUpToEnd) {
  EXPECT_EQ(rate("linear", 0), 2);
  EXPECT_EQ(rate("linear", 75), 0.5);
  EXPECT_EQ(rate("linear", 1000), 0);
  EXPECT_EQ(rate("linear:warmup=20", 60), 1);
  EXPECT_EQ(rate("linear:to=0.25", 100), 0.5);
  EXPECT_EQ(complaint("linear:warmup=100"),
            "[lr_schedule 'linear'] the run must be longer than its warm-up of "
            "100 epochs, got 100");
}

TEST(LrSchedule, ExponentialDropsEveryEpoch) {
  EXPECT_EQ(rate("exponential:factor=0.5", 0.9), 2);
  EXPECT_EQ(rate("exponential:factor=0.5", 3), 0.25);
  // AN4: divided by 1.01.
  EXPECT_DOUBLE_EQ(rate("exponential:factor=0.990099009900990099", 70),
                   2 / std::pow(1.01, 70));
}

TEST(LrSchedule, InverseSqrtRisesThenFalls) {
  const char* text = "inverse-sqrt:rise=100";
  const auto schedule = make_lr_schedule(text, kContext);
  EXPECT_DOUBLE_EQ(schedule->rate(0), 0.02);
  EXPECT_DOUBLE_EQ(schedule->rate(99), 2);
  EXPECT_DOUBLE_EQ(schedule->rate(399), 1);
}

TEST(LrSchedule, PlateauWaitsAndResumes) {
  const char* text = "plateau:factor=0.5,patience=2,least=0.25";
  const auto first = make_lr_schedule(text, kContext);
  for (const double loss : {3.0, 2.0, 2.0, std::nan("")}) first->observe(loss);
  EXPECT_EQ(first->rate(0), 2);
  const auto second = make_lr_schedule(text, kContext);
  second->load_state(first->state());
  second->observe(2.5);  // the third that is not better
  EXPECT_EQ(second->rate(0), 1);
  for (int i = 0; i < 30; ++i) second->observe(2);
  EXPECT_EQ(second->rate(0), 0.5);
  for (const double x : make_lr_schedule(text, kContext)->state()) {
    EXPECT_TRUE(std::isfinite(x));
  }
}

TEST(LrSchedule, RefusesAStateOfAnother) {
  const std::vector<double> state(2);
  const auto plateau = make_lr_schedule("plateau", kContext);
  EXPECT_EQ(message_of<Invalid>([&] { plateau->load_state(state); }),
            "[lr_schedule 'plateau'] a state must have 3 numbers, got 2; was "
            "the checkpoint of another schedule?");
  const auto constant = make_lr_schedule("constant", kContext);
  constant->load_state({});
  EXPECT_EQ(message_of<Invalid>([&] { constant->load_state(state); }),
            "[lr_schedule] this schedule keeps no state, got 2 numbers; was "
            "the checkpoint of another schedule?");
}

TEST(LrSchedule, SaysWhatWouldWork) {
  EXPECT_EQ(complaint("sine"),
            "[make_lr_schedule] no lr_schedule 'sine'; known: constant steps "
            "exponential linear cosine inverse-sqrt plateau");
  EXPECT_EQ(complaint("steps:at=80-30"),
            "[lr_schedule 'steps'] parameter 'at' must be ascending, got "
            "'80-30'");
  EXPECT_CONTAINS(complaint("steps:at=x"), "as in 30-60-80, got 'x'");
  EXPECT_CONTAINS(complaint("steps:gamma=0.1"),
                  "[lr_schedule 'steps'] no parameter 'gamma'; known: at "
                  "factor factors warmup warmup_share warmup_most warmup_from "
                  "per_worker");
  EXPECT_EQ(complaint("constant:warmup_from=2"),
            "[lr_schedule] warmup_from must be workers, step or a number in "
            "[0, 1], got '2'");
  EXPECT_EQ(complaint("cosine:warmup=100"),
            "[lr_schedule 'cosine'] the run must be longer than its warm-up of "
            "100 epochs, got 100");
  EXPECT_CONTAINS(message_of<Invalid>([] {
                    make_lr_schedule("constant", {0.1, 0, 10, 10});
                  }),
                  "a worker, a step per epoch and an epoch, got 0.1, 0, 10");
}

TEST(LrSchedule, EveryOneIsDescribedAndStartsFinite) {
  for (const auto& entry : lr_schedules()) {
    EXPECT_FALSE(entry.describe().summary.empty());
    const auto schedule = make_lr_schedule(entry.name, kContext);
    for (const std::uint64_t step : {0, 1, 500, 1000, 100000}) {
      const double now = schedule->rate(step);
      EXPECT_TRUE(now >= 0 && now <= 2) << entry.name << " " << now;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
