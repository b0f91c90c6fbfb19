// What single collectives promise beyond the law.

#include <bit>
#include <cmath>
#include <numeric>

#include "exchanger.h"
#include "ranks.h"
#include "sluice/collective/auto.h"
#include "sluice/collective/balanced.h"
#include "sluice/collective/dense.h"
#include "sluice/collective/oktopk.h"
#include "sluice/collective/vote.h"
#include "sluice/comm/emulated/emulated.h"
#include "sluice/comm/threads/threads.h"
#include "sluice/cost/model.h"
#include "staged_link.h"
#include "support.h"

namespace sluice::testing {
namespace {

struct Tally {
  double received = 0;  // mean bytes
  double imbalance = 0;
  double k = 0;
  double u = 0;
};

// Bytes of `steps` steps, of which the first does not count.
Tally tally(const std::string& name, std::size_t size, std::uint64_t n,
            double density, std::uint64_t hot = 1, std::uint64_t steps = 2) {
  auto ranks = make_thread_ranks(size);
  std::vector<Traffic> traffic(size);
  std::vector<double> k(size);
  double u = 0;
  run_ranks(ranks, [&](std::size_t r) {
    auto collective = make_collective(name);
    Exchanger exchanger;
    for (std::uint64_t step = 0; step < steps; ++step) {
      const Picks mine = random_picks(n, density, 17 * r + step, hot);
      ranks[r]->reset_traffic();
      exchanger.reduce(*collective, *ranks[r], mine, {.n = n, .step = step});
      const Traffic t = ranks[r]->traffic();
      if (step > 0) {
        traffic[r].bytes_sent += t.bytes_sent;
        traffic[r].bytes_received += t.bytes_received;
      }
      k[r] = double(mine.size());
      collective->commit(vote_on(*ranks[r], step, true, mine.size()).totals[0]);
    }
    if (r == 0) u = double(exchanger.sum_entries());
  });
  Tally result;
  result.u = u;
  result.k = std::accumulate(k.begin(), k.end(), 0.0) / double(size);
  double most = 0;
  for (const Traffic& t : traffic) {
    result.received += double(t.bytes_received) / double(size * (steps - 1));
    most = std::max(most, double(std::max(t.bytes_sent, t.bytes_received)));
  }
  result.imbalance = most / double(steps - 1) / result.received;
  return result;
}

// Slots are as large as the last step needed; when a rank needs more, all send
// once more, and the sum is what it should be.
TEST(Allgather, SendsAgainWhatDoesNotFitItsSlot) {
  constexpr std::uint64_t kN = 4000;
  constexpr std::size_t kRanks = 3;
  for (const std::string& device : linked_names()) {
    auto ranks = make_thread_ranks(kRanks);
    LinkHub hub;
    run_ranks(ranks, [&](std::size_t r) {
      const auto backend = make_backend(device);
      const auto link = make_link(device, hub, *ranks[r], *backend);
      Exchanger exchanger(*backend, link.get());
      const auto collective = make_collective("allgather");
      // Bytes that go with a step in which rank 1 has so many entries.
      const auto bytes = [&](std::uint64_t step, std::uint32_t entries) {
        Picks mine;
        for (std::uint32_t j = 0; j < (r == 1 ? entries : 10); ++j) {
          mine.add(j * 3 % kN, 1);
        }
        std::sort(mine.indices.begin(), mine.indices.end());
        ranks[r]->reset_traffic();
        exchanger.reduce(*collective, *ranks[r], mine, {.n = kN, .step = step});
        const std::vector<float> sum = exchanger.sum();
        EXPECT_EQ(std::accumulate(sum.begin(), sum.end(), 0.0F),
                  float(entries) + 20);
        return ranks[r]->traffic().bytes_sent;
      };
      const std::uint64_t first = bytes(0, 10);
      collective->commit(30);
      const std::uint64_t small = bytes(1, 10);
      EXPECT_LT(small, first / 20);
      // Did not fit, and was not committed: forgotten.
      EXPECT_EQ(bytes(2, 1000), small + first);
      collective->roll_back();
      EXPECT_EQ(bytes(2, 10), small);
      EXPECT_EQ(bytes(2, 1000), small + first);
      collective->commit(1020);
      const std::uint64_t large = bytes(3, 1000);
      EXPECT_GT(large, 4 * small);
      EXPECT_LT(large, first / 2);
    });
  }
}

TEST(Balanced, ReceivesLittleMoreThanItMust) {
  for (const std::size_t size : {8, 16}) {
    for (const double density : {0.001, 0.01}) {
      constexpr std::uint64_t kN = 1 << 22;
      const Tally t = tally("balanced", size, kN, density);
      const double bound = bound_bytes({double(kN), t.k, t.u, double(size)});
      EXPECT_LT(t.received / bound, 1.15) << size << " " << density;
      EXPECT_LT(t.imbalance, 1.1) << size << " " << density;
    }
  }
}

TEST(Balanced, SpreadsHotRegionsEvenly) {
  for (const std::string name : {"balanced:direct=no", "balanced"}) {
    const Tally t = tally(name, 8, 1 << 20, 0.005, 16);
    EXPECT_LT(t.imbalance, 1.1) << name;
  }
}

TEST(OwnerMap, PlacesEveryIndexOnceAndInverts) {
  for (const std::size_t ranks : {2, 3, 5, 8, 64}) {
    for (const std::uint64_t block : {1, 8, 64}) {
      for (const std::uint64_t n : {1, 63, 1000, 4097}) {
        const OwnerMap map(n, ranks, block);
        std::vector<std::uint32_t> last(ranks, 0);
        for (std::uint32_t j = 0; j < n; ++j) {
          const auto [owner, local] = map.place(j);
          ASSERT_LT(owner, ranks);
          ASSERT_LT(local, map.length());
          ASSERT_EQ(map.index(owner, local), j);
          ASSERT_GE(local, last[owner]);  // keeps the order
          last[owner] = local;
        }
      }
    }
  }
  EXPECT_THROW(OwnerMap(10, 1), std::invalid_argument);
  EXPECT_THROW(make_collective("balanced:block=3"), std::invalid_argument);
}

// Bytes that all ranks send in a step whose values may travel in this form.
std::uint64_t bytes_sent(const std::string& name, std::size_t size,
                         ValueForm form, std::uint64_t per_rank) {
  constexpr std::uint64_t kN = 60000;
  auto ranks = make_thread_ranks(size);
  std::vector<std::uint64_t> sent(size);
  run_ranks(ranks, [&](std::size_t r) {
    Picks mine;
    for (std::uint64_t i = 0; i < per_rank; ++i) {
      mine.add(static_cast<std::uint32_t>(29 * i + 7 * r),
               static_cast<float>(1 + (i * (r + 3)) % 128));
    }
    Exchanger exchanger;
    exchanger.reduce(name, *ranks[r], mine,
                     {.n = kN,
                      .rest = std::vector<float>(kN, 0.5F),
                      .forms = {{kN / 2, form, {}}, {kN / 2, form, {}}}});
    sent[r] = ranks[r]->traffic().bytes_sent;
  });
  return std::accumulate(sent.begin(), sent.end(), std::uint64_t{0});
}

TEST(Collectives, SendFewerBytesWhereTheyCarry16BitValues) {
  constexpr std::uint64_t kEach = 2000;
  std::vector<std::string> names = {"balanced:direct=no",
                                    "balanced:direct=yes"};
  for (const CollectiveEntry& entry : collectives()) {
    names.emplace_back(entry.name);
  }
  for (const std::string& name : names) {
    for (const std::size_t size : {2, 3, 4, 5}) {
      const std::uint64_t full =
          bytes_sent(name, size, ValueForm::kFp32, kEach);
      for (const ValueForm form : {ValueForm::kBf16, ValueForm::kFp16}) {
        if (!make_collective(name)->carries(form)) continue;
        // Half of the ranks send two bytes less for each entry at least, but
        // where even fp32 is rounded on its way.
        const auto* dense = make_collective(name)->as_dense();
        const std::uint64_t saved =
            dense ? 0 : 2 * ((size + 1) / 2) * kEach * 9 / 10;
        EXPECT_LE(bytes_sent(name, size, form, kEach) + saved, full)
            << name << ", " << size << " ranks";
      }
    }
  }
}

TEST(Cltk, ReturnsWhatItRoundsOff) {
  constexpr std::uint64_t kN = 4000;
  constexpr std::size_t kRanks = 5;
  auto ranks = make_thread_ranks(kRanks);
  std::vector<std::vector<float>> sums(kRanks);
  std::vector<std::vector<float>> returned(kRanks);
  std::vector<double> selected(kN, 0);
  for (std::size_t r = 0; r < kRanks; ++r) {
    for (std::uint32_t j = static_cast<std::uint32_t>(r); j < kN; j += 3) {
      selected[j] += 1 + j % 128;
    }
  }
  run_ranks(ranks, [&](std::size_t r) {
    Picks mine;
    std::vector<float> rest(kN);
    for (std::uint32_t j = 0; j < kN; ++j) {
      if (j >= r && (j - r) % 3 == 0) {
        mine.add(j, static_cast<float>(1 + j % 128));
      } else {
        rest[j] = static_cast<float>(j % 1001);
      }
    }
    Exchanger exchanger;
    exchanger.reduce(
        "cltk", *ranks[r], mine,
        {.n = kN, .rest = rest, .forms = {{kN, ValueForm::kBf16, {}}}});
    sums[r] = exchanger.sum();
    returned[r] = exchanger.returned();
  });
  for (std::size_t j = 0; j < kN; ++j) {
    double all = static_cast<double>(sums[0][j]);
    for (std::size_t r = 0; r < kRanks; ++r) {
      ASSERT_EQ(sums[r][j], sums[0][j]);
      all += static_cast<double>(returned[r][j]);
    }
    ASSERT_EQ(all, selected[j]) << j;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(sums[0][j]) & 0xffff, 0U) << j;
  }
}

// As many as a bucket may have, and not one more.
TEST(OwnerMap, ReachesTheLastIndexOfTheLargestBucket) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
  Bucket bucket;
  bucket.add(0, {1, kMost / 2 + 5, 1}, 0);
  bucket.add(1, {1, kMost / 2 - 5, 1}, 0);
  ASSERT_EQ(bucket.size(), kMost);
  const std::vector<SegmentForm> whole = {
      {kMost / 2 + 5, ValueForm::kFp32, {}},
      {kMost / 2 - 5, ValueForm::kFp32, {}}};
  for (const std::size_t ranks : {2, 3, 5, 8, 1024}) {
    for (const std::uint64_t block : {1, 8, 65536}) {
      const OwnerMap map(bucket.size(), ranks, block);
      EXPECT_LE(map.length(), kMost);
      std::uint64_t owned = 0;
      for (std::size_t owner = 0; owner < ranks; ++owner) {
        std::vector<SegmentForm> forms;
        map.forms(owner, whole, forms);
        ASSERT_EQ(forms[0].size + forms[1].size, map.length());
        owned += forms[0].size;
        // The first place of the second segment, and the last of the first.
        const auto place = static_cast<std::uint32_t>(forms[0].size);
        EXPECT_GE(map.index(owner, place), whole[0].size);
        EXPECT_LT(map.index(owner, place - 1), whole[0].size);
      }
      EXPECT_EQ(owned, whole[0].size) << ranks << " ranks, block " << block;
      for (const std::uint64_t back : {1, 2, 65535, 65536, 65537, 3000000}) {
        const auto j = static_cast<std::uint32_t>(kMost - back);
        const auto [owner, local] = map.place(j);
        ASSERT_LT(owner, ranks);
        ASSERT_LT(local, map.length());
        ASSERT_EQ(map.index(owner, local), j);
      }
    }
  }
  EXPECT_THROW(OwnerMap(kMost + 1, 2), std::invalid_argument);
}

TEST(Oktopk, StaysBelowSixKWords) {
  constexpr std::uint64_t kN = 200000;
  constexpr std::size_t kRanks = 4;
  // All of a tau' cycle, its refresh among them.
  const Tally t = tally("oktopk", kRanks, kN, 0.01, 1, 1 + 32);
  EXPECT_LT(t.received, 6 * t.k * (kRanks - 1) / kRanks * 4);
  EXPECT_LE(t.u, 1.5 * t.k + 1);
  EXPECT_GE(t.u, 0.5 * t.k);
}

// In a refresh step it gives the k largest of the sum, exactly.
TEST(Oktopk, IsExactWhenItRefreshes) {
  constexpr std::uint64_t kN = 3000;
  constexpr std::uint64_t kK = 50;
  auto ranks = make_thread_ranks(3);
  std::vector<std::vector<float>> got(3);
  run_ranks(ranks, [&](std::size_t r) {
    Exchanger exchanger;
    exchanger.reduce(std::string("oktopk"), *ranks[r],
                     random_picks(kN, 0.05, r), {.n = kN, .k = kK});
    got[r] = exchanger.sum();
  });
  std::vector<float> sum(kN);
  for (std::size_t r = 0; r < 3; ++r) {
    const Picks theirs = random_picks(kN, 0.05, r);
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      sum[theirs.indices[i]] += theirs.values[i];
    }
  }
  std::vector<float> expected(kN);
  for (const std::uint32_t j : reference_topk(sum, kK)) expected[j] = sum[j];
  EXPECT_EQ(got[0], expected);
}

// Ranks that must level out come to the same delivery.
TEST(Oktopk, LevelsOutASkewedSum) {
  constexpr std::uint64_t kN = 4000;
  for (const std::string name : {"oktopk:balance=1", "oktopk:balance=1e9"}) {
    auto ranks = make_thread_ranks(4);
    std::vector<std::vector<float>> sums(4);
    run_ranks(ranks, [&](std::size_t r) {
      auto collective = make_collective(name);
      Exchanger exchanger;
      for (std::uint64_t step = 0; step < 3; ++step) {
        const Picks mine =
            random_picks(kN, 0.05, 10 * r + step, step == 0 ? 1 : 8);
        exchanger.reduce(*collective, *ranks[r], mine,
                         {.n = kN, .k = 100, .step = step});
        collective->commit(0);
      }
      sums[r] = exchanger.sum();
    });
    for (const auto& sum : sums) EXPECT_EQ(sum, sums[0]);
    EXPECT_GT(std::count_if(sums[0].begin(), sums[0].end(),
                            [](float v) { return v != 0; }),
              10);
  }
}

// Of a checkpoint that anyone may have written: numbers that are no counts.
TEST(Collectives, SurviveAForgedState) {
  constexpr std::uint64_t kN = 2000;
  for (const std::string name : {"auto", "balanced", "dense", "oktopk"}) {
    for (const double value : {std::nan(""), -1.0, 0.5, 1e300}) {
      auto ranks = make_thread_ranks(3);
      std::vector<std::vector<float>> sums(3);
      run_ranks(ranks, [&](std::size_t r) {
        Exchanger exchanger;
        for (const std::size_t size : {1, 3, 4, 6, 7, 20}) {
          auto collective = make_collective(name);
          collective->load(std::vector(size, value));
          exchanger.reduce(*collective, *ranks[r], random_picks(kN, 0.05, r),
                           {.n = kN, .k = 50, .step = size});
          collective->commit(0);
          sums[r] = exchanger.sum();
        }
      });
      for (const auto& sum : sums) EXPECT_EQ(sum, sums[0]) << name << value;
    }
  }
}

// The ways to sum add in other orders, so clocks must not decide between them.
TEST(Dense, DecidesAtOnceAndRemembers) {
  auto ranks = make_thread_ranks(2);
  run_ranks(ranks, [&](std::size_t r) {
    Dense dense({});
    std::vector<float> values(100, 1);
    EXPECT_EQ(dense.by(), "");
    for (std::uint64_t step = 0; step < 6; ++step) {
      dense.sum(*ranks[r], step, values, values, {});
      dense.commit(0);
      EXPECT_EQ(dense.by(), "ring") << "threads have no sum of their own";
    }
    Dense again({});
    again.load(dense.save());
    EXPECT_EQ(again.by(), "ring");
    again.load(std::vector{6.0, 1e30, 1e30, 1.0});
    EXPECT_EQ(again.by(), "native");
  });
}

// Simulated, so that the network is what it is said to be.
TEST(Auto, MeasuresTheNetworkAndChooses) {
  const auto choice = [](std::uint64_t n, double density, std::size_t size) {
    ManualClock clock;
    const Link link = {50e-6, 8e-9, {}};
    std::vector<std::unique_ptr<Communicator>> ranks;
    for (auto& engine : make_thread_engines(size, {&clock, nullptr, nullptr})) {
      ranks.push_back(std::make_unique<Communicator>(
          make_emulated(std::move(engine), link)));
    }
    std::string chosen;
    run_ranks(ranks, [&](std::size_t r) {
      Auto algorithm({});
      Exchanger exchanger;
      exchanger.reduce(algorithm, *ranks[r], random_picks(n, density, r),
                       {.n = n});
      if (r != 0) return;
      chosen = algorithm.choice();
      EXPECT_NEAR(algorithm.network().alpha, 50e-6, 1e-6);
      EXPECT_NEAR(algorithm.network().beta, 8e-9, 1e-11);
    });
    return chosen;
  };
  EXPECT_EQ(choice(100000, 0.001, 8), "sparcml-rd");
  EXPECT_EQ(choice(1000000, 0.1, 8), "balanced");
  EXPECT_EQ(choice(100000, 1, 4), "dense");
}

// Bytes that rank 0 sends of a bucket of several tensors.
std::uint64_t bytes_of(const std::string& name,
                       const std::vector<SegmentForm>& forms, const Picks& mine,
                       const std::string& backend) {
  auto ranks = make_thread_ranks(2);
  std::uint64_t bytes = 0;
  std::vector<std::vector<float>> sums(2);
  std::uint64_t n = 0;
  for (const SegmentForm& form : forms) n += form.size;
  run_ranks(ranks, [&](std::size_t r) {
    Exchanger exchanger(make_backend(backend));
    exchanger.reduce(name, *ranks[r], mine, {.n = n, .forms = forms});
    sums[r] = exchanger.sum(0.5F);
    if (r == 0) bytes = ranks[r]->traffic().bytes_sent;
  });
  for (std::size_t i = 0; i < mine.size(); ++i) {
    EXPECT_EQ(sums[0][mine.indices[i]], mine.values[i]);
  }
  return bytes;
}

// What was selected travels in the forms of its segments, by every algorithm
// that sends it as it is.
TEST(Collectives, SendEverySegmentInItsOwnForm) {
  constexpr std::uint32_t kRows = 64;
  constexpr std::uint32_t kLength = 256;
  constexpr std::uint32_t kRest = 5000;
  Picks mine;
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::uint32_t i = 0; i < 8; ++i) {
      mine.add(row * kLength + (7 * row + 32 * i) % kLength / 8 + 32 * i,
               0.25F);
    }
  }
  for (std::uint32_t i = 0; i < 100; ++i) {
    mine.add(kRows * kLength + 50 * i, 3.5F);
  }
  std::vector<SegmentForm> plain = {{.size = kRows * kLength}, {.size = kRest}};
  std::vector<SegmentForm> forms = plain;
  forms[0].rows = {{kRows, kLength, 1, 8}, false};
  forms[0].values = ValueForm::kOne;
  forms[1].values = ValueForm::kTwoBit;
  for (const std::string& backend : device_names()) {
    for (const std::string name : {"allgather", "balanced", "sparcml-rd"}) {
      const std::uint64_t bytes = bytes_of(name, forms, mine, backend);
      const std::uint64_t as_fp32 = bytes_of(name, plain, mine, backend);
      // Four bytes of each value are saved, and more by the rows.
      EXPECT_LT(bytes + 4 * mine.size() * 9 / 10, as_fp32) << name;
    }
  }
}

TEST(Collectives, WorkWith64Ranks) {
  constexpr std::uint64_t kN = 20000;
  for (const CollectiveEntry& entry : collectives()) {
    auto ranks = make_thread_ranks(64);
    std::vector<std::vector<float>> sums(64);
    std::vector<std::uint64_t> bytes(64);
    run_ranks(ranks, [&](std::size_t r) {
      Exchanger exchanger;
      exchanger.reduce(std::string(entry.name), *ranks[r],
                       random_picks(kN, 0.01, r),
                       {.n = kN, .rest = std::vector<float>(kN)});
      sums[r] = exchanger.sum();
      bytes[r] = ranks[r]->traffic().bytes_received;
    });
    for (std::size_t r = 0; r < 64; ++r) {
      ASSERT_EQ(sums[r], sums[0]) << entry.name;
      // Nobody gets more than everybody's everything.
      EXPECT_LT(bytes[r], 63 * (kN / 100 * 8 + 4 * kN)) << entry.name;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
