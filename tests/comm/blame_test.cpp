// Who is named where ranks miss each other, and what keeps a slow one from it.

#include "sluice/comm/blame.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "ranks.h"

namespace sluice::testing {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kPhase = 1;

void expect_blame(const std::vector<Complaint>& all, std::size_t ranks,
                  std::size_t suspect, bool answers) {
  const Blame verdict = judge_complaints(all, ranks);
  EXPECT_EQ(verdict.suspect, suspect);
  EXPECT_EQ(verdict.answers, answers);
}

TEST(Blame, NamesTheSilentEndOfAChain) {
  // 3 misses 2, 2 misses 1, 1 misses 0, who says nothing.
  expect_blame({{3, 2, 3000}, {2, 1, 2900}, {1, 0, 2800}}, 4, 0, false);
}

// Rank 3 computes, and somebody has begun to wait for it.
TEST(Blame, NamesWhoWasSilentFirst) {
  expect_blame({{1, 3, 40}, {2, 0, 3000}}, 4, 0, false);
}

TEST(Blame, NamesARankThatWasPausedAndAnswers) {
  expect_blame({{1, 0, 3000}, {2, 1, 3100}, {0, 0, 3500}}, 3, 0, true);
}

TEST(Blame, NamesARankThatIsMissedAndAnswers) {
  // Rank 0 was paused where it could not tell, and now waits for rank 1.
  expect_blame({{0, 1, 20}, {1, 0, 3000}}, 2, 0, true);
}

// In a circle all have waited as long, but for the one that came back.
TEST(Blame, NamesTheLastToArriveInACircle) {
  expect_blame({{1, 0, 0}, {0, 2, 301}, {2, 1, 300}}, 3, 1, true);
}

TEST(Blame, FindsTheSilentOneWhereNobodyKnowsWhom) {
  constexpr std::size_t kNobody = Complaint::kNobody;
  expect_blame({{0, kNobody, 3000}, {2, kNobody, 3000}}, 3, 1, false);
}

std::vector<std::unique_ptr<Communicator>> real_ranks(std::size_t size,
                                                      milliseconds timeout) {
  auto ranks = make_thread_ranks(size);
  for (auto& rank : ranks) rank->set_timeout(timeout);
  return ranks;
}

void ring(Communicator& comm, std::uint64_t step) {
  comm.begin("ring", step);
  const std::size_t size = comm.size();
  comm.send((comm.rank() + 1) % size, kPhase, Bytes(8));
  comm.receive((comm.rank() + size - 1) % size, kPhase);
}

// Each waits for the one before it, and they began at different times: the
// first that gives up must hear from the others what they miss.
TEST(Blame, InnocentRanksOfAChainAreNotNamed) {
  constexpr std::size_t kSize = 4;
  auto ranks = real_ranks(kSize, milliseconds(1200));
  std::vector<std::size_t> suspects(kSize, 99);
  std::vector<std::string> errors(kSize);
  run_ranks(ranks, [&](std::size_t r) {
    if (r == 0) std::this_thread::sleep_for(std::chrono::seconds(3));
    if (r == 0) return;
    Communicator& comm = *ranks[r];
    std::this_thread::sleep_for(milliseconds(100 * (kSize - r)));
    try {
      comm.begin("chain", 5);
      comm.receive(r - 1, kPhase);
    } catch (const CommError& e) {
      suspects[r] = e.suspect();
      errors[r] = e.what();
    }
  });
  for (std::size_t r = 1; r < kSize; ++r) {
    EXPECT_EQ(suspects[r], 0U) << errors[r];
    EXPECT_NE(errors[r].find("rank 0 does not answer"), std::string::npos)
        << errors[r];
  }
}

// A rank that comes back when the others have given up hears that it is the
// one.
TEST(Blame, ARankThatWasPausedNamesItself) {
  auto ranks = real_ranks(3, milliseconds(300));
  std::string error;
  run_ranks(ranks, [&](std::size_t r) {
    ring(*ranks[r], 0);
    if (r == 1) std::this_thread::sleep_for(milliseconds(1500));
    try {
      // What was sent to it before lets it go on for some.
      for (std::uint64_t step = 1; step < 9; ++step) ring(*ranks[r], step);
      ADD_FAILURE() << "nobody noticed";
    } catch (const CommError& e) {
      EXPECT_EQ(e.suspect(), 1U) << e.what();
      if (r == 1) error = e.what();
    }
  });
  EXPECT_NE(error.find("rank 1 was paused or slow"), std::string::npos)
      << error;
}

// Longer than the others wait, several times over.
TEST(WorkAlone, IsNotTakenForDeath) {
  auto ranks = real_ranks(4, milliseconds(400));
  std::vector<int> good(4, 0);
  run_ranks(ranks, [&](std::size_t r) {
    Communicator& comm = *ranks[r];
    ring(comm, 0);
    comm.work_alone("writing 'x'", std::chrono::seconds(60), [&] {
      if (r == 2) std::this_thread::sleep_for(std::chrono::seconds(2));
    });
    ring(comm, 1);
    ring(comm, 2);
    good[r] = 1;
  });
  EXPECT_EQ(good, std::vector<int>({1, 1, 1, 1}));
}

TEST(WorkAlone, HasALimitAndNamesTheFile) {
  auto ranks = real_ranks(3, milliseconds(400));
  std::vector<std::string> errors(3);
  run_ranks(ranks, [&](std::size_t r) {
    Communicator& comm = *ranks[r];
    ring(comm, 6);
    try {
      comm.work_alone("writing 'x'", milliseconds(500), [&] {
        if (r == 2) std::this_thread::sleep_for(std::chrono::seconds(2));
      });
      for (std::uint64_t step = 7; step < 12; ++step) ring(comm, step);
      ADD_FAILURE() << "nobody noticed";
    } catch (const CommError& e) {
      errors[r] = e.what();
      EXPECT_EQ(e.suspect(), 2U) << errors[r];
    }
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("rank 2 must be done with writing 'x' in 0.5 s"),
              std::string::npos)
        << error;
  }
}

TEST(WorkAlone, PassesOnWhatTheWorkThrows) {
  auto ranks = real_ranks(1, milliseconds(400));
  EXPECT_THROW(ranks[0]->work_alone("x", std::chrono::seconds(1),
                                    [] { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_FALSE(ranks[0]->failed());
}

// GradientSync counts buckets, people count steps.
TEST(Communicator, NamesStepsAsPeopleCountThem) {
  ManualClock clock;
  auto ranks = make_thread_ranks(2, {&clock, nullptr, nullptr});
  std::string error;
  run_ranks(ranks, [&](std::size_t r) {
    if (r == 1) return;
    ranks[r]->count_steps(10, 1);
    try {
      ring(*ranks[r], 1234);
    } catch (const CommError& e) {
      error = e.what();
    }
  });
  EXPECT_NE(error.find("in step 124 bucket 4 phase 1;"), std::string::npos)
      << error;
}

}  // namespace
}  // namespace sluice::testing
