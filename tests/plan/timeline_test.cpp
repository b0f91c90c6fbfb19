#include "sluice/plan/timeline.h"

#include <cmath>
#include <random>

#include "support.h"

namespace sluice::testing {
namespace {

const std::vector<double> kBackward = {2, 3, 1};

TEST(Timeline, OverlapsWhatMayOverlap) {
  // Bucket 0 has the first gradient, bucket 1 the others.
  const std::vector<BucketWork> work = {{1, 1, 4, 0.5}, {3, 1, 2, 0.5}};
  const Timeline t = run_timeline(10, kBackward, work, {});
  EXPECT_EQ(t.buckets[0].ready, 12);
  EXPECT_EQ(t.buckets[0].select.end, 13);
  EXPECT_EQ(t.buckets[0].exchange.end, 17);
  EXPECT_EQ(t.buckets[0].apply.end, 17.5);
  EXPECT_EQ(t.buckets[1].ready, 16);
  // It is selected at 17, but the link applies until 17.5.
  EXPECT_EQ(t.buckets[1].exchange.begin, 17.5);
  EXPECT_EQ(t.end, 20);
  EXPECT_EQ(t.exposed_exchange(), 3);  // 16 to 17, 17.5 to 19.5
  EXPECT_EQ(t.exposed_work(), 1);      // 17 to 17.5, 19.5 to 20

  const Timeline beside = run_timeline(10, kBackward, work, {true, true});
  EXPECT_EQ(beside.buckets[1].exchange.begin, 17);
  EXPECT_EQ(beside.end, 19.5);
}

TEST(Timeline, SelectionInTheStreamOfBackwardDelaysIt) {
  const std::vector<BucketWork> work = {{1, 1, 4, 0}, {3, 1, 2, 0}};
  const Timeline t = run_timeline(10, kBackward, work, {false, false});
  EXPECT_EQ(t.buckets[1].ready, 17);
  EXPECT_EQ(t.buckets[1].select.end, 18);
  EXPECT_EQ(t.end, 20);
  // From 12 to 13 nothing else runs, from 17 to 18 nothing either: the first
  // exchange has ended.
  EXPECT_EQ(t.exposed_work(), 2);
  EXPECT_EQ(t.exposed_exchange(), 2);
}

// What the host selects delays neither backward nor a gradient, but whatever is
// selected behind it.
TEST(Timeline, HostsSelectBesideBackward) {
  std::vector<BucketWork> work = {{1, 1, 4, 0}, {3, 1, 2, 0}};
  work[0].beside = true;
  const Timeline t = run_timeline(10, kBackward, work, {false, false});
  EXPECT_EQ(t.buckets[0].select.begin, 12);
  EXPECT_EQ(t.buckets[0].select.end, 13);
  EXPECT_EQ(t.buckets[1].ready, 16);
  EXPECT_EQ(t.buckets[1].select.end, 17);
  EXPECT_EQ(t.end, 19);
  // Selected until 14.5; the next one's gradient is there at 12 already, and
  // backward comes to it at 15 only.
  work = {{1, 2.5, 1, 0}, {1, 1, 2, 0}, {3, 0, 1, 0}};
  work[0].beside = true;
  const Timeline late = run_timeline(10, kBackward, work, {false, false});
  EXPECT_EQ(late.buckets[1].ready, 12);
  EXPECT_EQ(late.buckets[1].select.begin, 15);
  EXPECT_EQ(late.buckets[2].ready, 17);
  // Behind all of backward, it waits for the host.
  work = {{3, 5, 1, 0}, {3, 1, 2, 0}};
  work[0].beside = true;
  const Timeline last = run_timeline(10, kBackward, work, {false, false});
  EXPECT_EQ(last.buckets[1].select.begin, 21);
  EXPECT_EQ(last.end, 24);
}

// Dense sums wait for the vote, which waits for all exchanges.
TEST(Timeline, CommitsAtTheEnd) {
  const std::vector<BucketWork> work = {{1, 0, 1, 4, true}, {3, 0, 2, 1}};
  const Timeline t = run_timeline(0, kBackward, work, {}, 0.5);
  EXPECT_EQ(t.buckets[1].apply.end, 9);
  EXPECT_EQ(t.vote.begin, 9);
  EXPECT_EQ(t.vote.end, 9.5);
  EXPECT_EQ(t.buckets[0].apply.begin, 9.5);
  EXPECT_EQ(t.end, 13.5);
  EXPECT_EQ(t.exposed_exchange(), 2.5);
  EXPECT_EQ(t.exposed_work(), 5);
}

TEST(Timeline, KeepsTheOrderOfBuckets) {
  // The bucket that is ready first stands behind one that is ready last.
  const std::vector<BucketWork> work = {{3, 0, 1, 0}, {1, 0, 1, 0}};
  const Timeline t = run_timeline(0, kBackward, work, {});
  EXPECT_EQ(t.buckets[0].exchange.begin, 6);
  EXPECT_EQ(t.buckets[1].exchange.begin, 7);
}

// What is not hidden is what the step takes longer: nothing waits for nothing.
TEST(Timeline, ExposesWhatIsNotComputed) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> seconds(0, 1);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> backward(1 + random() % 9);
    std::vector<BucketWork> work;
    double computed = seconds(random);
    const double forward = computed;
    for (std::size_t q = 0; q < backward.size(); ++q) {
      backward[q] = seconds(random);
      computed += backward[q];
      if (random() % 2 == 0 || q + 1 == backward.size()) {
        work.push_back(
            {q + 1, seconds(random), 2 * seconds(random), seconds(random)});
        work.back().beside = random() % 3 == 0;
      }
    }
    for (const bool select : {false, true}) {
      for (const bool apply : {false, true}) {
        const Timeline t =
            run_timeline(forward, backward, work, {select, apply});
        EXPECT_NEAR(computed + t.exposed_exchange() + t.exposed_work(), t.end,
                    1e-9);
      }
    }
  }
}

// Espresso's released simulator on VGG16: 8 machines of 8 GPUs, random-k at
// 1 %, in microseconds. It delays later gradients by the time to encode and
// counts that once more on the link.
constexpr std::size_t kNever = ~std::size_t{0};
struct Espresso {
  double beta_inside;
  // Elements above which a tensor goes in 16 bits, sparse between machines, or
  // sparse within them as well.
  std::size_t half_above = kNever;
  std::size_t sparse_above = kNever;
  std::size_t two_level_above = kNever;

  double total() const;
};

constexpr double kShare = 2.0 * 7 / 8;  // of the bytes, both within and between

double kilobytes(double bytes) { return std::floor(std::floor(bytes) / 1000); }

BucketWork espresso_work(const Espresso& e, std::size_t size, std::size_t q) {
  constexpr double kAlpha = 150;
  constexpr double kBetween = 0.8;
  constexpr double kRatio = 0.02;  // values and indices of 1 %
  const double bytes = kShare * 4 * static_cast<double>(size);
  double inside = bytes;
  double between = bytes;
  double steps = 2;
  double total = 0;
  double decode = 0;
  if (size > e.two_level_above) {
    inside = between = bytes * kRatio;
    steps = 4;
    total = 1000;
    decode = 100;
  } else if (size > e.sparse_above) {
    inside = bytes / 2;
    between = bytes * kRatio;
    total = 88;
    decode = 34;
  } else if (size > e.half_above) {
    inside = between = bytes / 2;
  }
  const double scale = std::max(1.0, static_cast<double>(size) / 8 / (1 << 20));
  return {q + 1, scale * (total - decode),
          steps * kAlpha + kilobytes(inside) * e.beta_inside +
              kilobytes(between) * kBetween + scale * total,
          0};
}

const std::vector<std::size_t> kVgg16 = {
    1000, 4096000, 4096, 16777216, 4096, 102760448, 512, 2359296,
    512,  2359296, 512,  2359296,  512,  2359296,   512, 2359296,
    512,  1179648, 256,  589824,   256,  589824,    256, 294912,
    128,  147456,  128,  73728,    64,   36864,     64,  1728};
// Gaps of gradients, modulo a millisecond as released.
const std::vector<double> kGaps = {0,   69,  266, 227, 161, 505, 621, 573,
                                   100, 911, 97,  869, 635, 385, 241, 341,
                                   298, 966, 191, 284, 507, 277, 499, 677,
                                   308, 394, 12,  359, 555, 434, 4,   544};

double Espresso::total() const {
  std::vector<BucketWork> work;
  for (std::size_t q = 0; q < kVgg16.size(); ++q) {
    work.push_back(espresso_work(*this, kVgg16[q], q));
  }
  return run_timeline(0, kGaps, work, {false, false}).end;
}

TEST(Timeline, GivesEspressosVgg16) {
  constexpr double kPcie = 0.4;
  constexpr double kNvlink = 0.02;
  constexpr std::size_t kHalf = 1 << 17;
  EXPECT_NEAR((Espresso{kPcie}).total(), 1171787, 0.5);
  EXPECT_NEAR((Espresso{kNvlink}).total(), 803761, 0.5);
  EXPECT_NEAR((Espresso{kPcie, kHalf}).total(), 591211, 0.5);
  EXPECT_NEAR((Espresso{kNvlink, kHalf}).total(), 407034, 0.5);
  EXPECT_NEAR((Espresso{kPcie, kHalf, 1 << 20}).total(), 225875, 0.5);
  EXPECT_NEAR((Espresso{kNvlink, kHalf, 1 << 19}).total(), 38703, 0.5);
  EXPECT_NEAR((Espresso{kPcie, kHalf, 1 << 20, 1 << 23}).total(), 79945, 0.5);
}

}  // namespace
}  // namespace sluice::testing
