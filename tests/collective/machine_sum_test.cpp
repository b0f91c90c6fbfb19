#include "sluice/collective/machine_sum.h"

#include "ranks.h"
#include "sluice/core/hash.h"
#include "support.h"

namespace sluice::testing {
namespace {

// Up to several segments per rank, shares that are not alike, and fewer
// elements than ranks.
constexpr std::size_t kSizes[] = {0, 1, 5, 4096, 4097, 100'003, 700'001};

TEST(MachineSum, IsAddedInTheOrderOfRanks) {
  for (const std::size_t size : {1, 2, 3, 5, 8}) {
    for (const std::size_t n : kSizes) {
      std::vector<std::vector<float>> in(size);
      std::vector<float> sum;
      for (std::size_t r = 0; r < size; ++r) {
        in[r] = gaussian(n, 10 * n + r);
        if (r == 0) sum = in[r];
        for (std::size_t j = 0; j < n && r > 0; ++j) sum[j] += in[r][j];
      }
      for (const bool in_place : {false, true}) {
        auto ranks = make_thread_ranks(size);
        run_ranks(ranks, [&](std::size_t r) {
          Communicator& comm = *ranks[r];
          std::vector<float> mine = in[r];
          std::vector<float> out(n, 7);
          comm.begin("sum", 0);
          sum_at_first(comm, mine, in_place ? mine : out, 3);
          comm.barrier(1);
          if (r == 0) {
            EXPECT_EQ(in_place ? mine : out, sum) << n;
          } else {
            EXPECT_EQ(mine, in[r]);
          }
        });
      }
    }
  }
}

TEST(MachineSum, IsCopiedToAll) {
  for (const std::size_t size : {1, 2, 3, 5, 8}) {
    for (const std::size_t n : kSizes) {
      auto ranks = make_thread_ranks(size);
      run_ranks(ranks, [&](std::size_t r) {
        std::vector<float> values = gaussian(n, r);
        ranks[r]->begin("copy", 0);
        copy_from_first(*ranks[r], values, 3);
        ranks[r]->barrier(1);
        EXPECT_EQ(values, gaussian(n, 0));
      });
    }
  }
}

// Ranks with other plans would add what does not belong together.
TEST(MachineSum, RefusesAnotherNumberOfValues) {
  for (const bool copies : {false, true}) {
    ManualClock clock;
    auto ranks = make_thread_ranks(2, {&clock, nullptr, nullptr});
    std::vector<std::string> errors(2);
    run_ranks(ranks, [&](std::size_t r) {
      std::vector<float> values(10 + r);
      try {
        ranks[r]->begin("machine", 4);
        if (copies) {
          copy_from_first(*ranks[r], values, 0);
        } else {
          sum_at_first(*ranks[r], values, values, 0);
        }
      } catch (const CommError& e) {
        errors[r] = e.what();
      }
    });
    EXPECT_EQ(errors[copies ? 1 : 0],
              concat("[machine] rank ", copies ? 1 : 0, " got from rank ",
                     copies ? 0 : 1,
                     " in step 4: values of another number; do all ranks have "
                     "the same plan?"));
  }
}

}  // namespace
}  // namespace sluice::testing
