// Which ranks may use NCCL together; tools/gpu_check runs NCCL itself.

#include "sluice/comm/nccl/nccl.h"

#include <gtest/gtest.h>

#include "sluice/comm/nccl/api.h"

namespace sluice::testing {
namespace {

TEST(Nccl, SaysWhyRanksCannotUseIt) {
  const auto problem = [](const std::vector<NcclRank>& ranks) {
    return nccl_problem(ranks);
  };
  EXPECT_EQ(problem({{"", 22000, "a", false}, {"", 22000, "b", false}}), "");
  EXPECT_EQ(problem({{"", 23003, "a", true}, {"", 23003, "a", true}}), "");
  EXPECT_EQ(problem({{"", 22809, "a", false}, {"[nccl] gone", 0, "", false}}),
            "[nccl] gone (rank 1)");
  EXPECT_EQ(problem({{"", 22809, "a", false}, {"", 23007, "b", false}}),
            "[nccl] all ranks must have the same NCCL, but rank 0 has 2.28.9 "
            "and rank 1 2.30.7");
  EXPECT_EQ(problem({{"", 22809, "a", true},
                     {"", 22809, "b", true},
                     {"", 22809, "a", true}}),
            "[nccl] ranks 0 and 2 are on one GPU, which NCCL 2.28.9 refuses; "
            "give each rank a GPU of its own");
  EXPECT_EQ(problem({{"", 23007, "a", false}, {"", 23007, "a", false}}),
            "[nccl] ranks 0 and 1 are on one GPU, which NCCL 2.30.7 takes only "
            "with NCCL_MULTI_RANK_GPU_ENABLE=1");
}

TEST(Nccl, ReadsVersionsAsNcclWritesThem) {
  EXPECT_EQ(nccl::version_text(22005), "2.20.5");
  EXPECT_EQ(nccl::version_text(23007), "2.30.7");
  EXPECT_EQ(nccl::version_text(2804), "2.8.4");
}

}  // namespace
}  // namespace sluice::testing
