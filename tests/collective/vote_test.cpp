// Votes, and what ends the doubt about one.

#include "sluice/collective/vote.h"

#include "ranks.h"
#include "sluice/comm/threads/threads.h"

namespace sluice::testing {
namespace {

TEST(Vote, CommitsOnlyIfAllAgreeAndCounts) {
  for (const std::size_t size : {1, 2, 5}) {
    for (std::size_t against = 0; against <= size; ++against) {
      auto ranks = make_thread_ranks(size);
      std::vector<VoteResult> verdicts(size);
      run_ranks(ranks, [&](std::size_t r) {
        const std::uint64_t counts[] = {r, 10 * r};
        Standing standing;
        vote(*ranks[r], 3, r != against ? Ballot::kYes : Ballot::kNo, counts,
             standing, verdicts[r]);
        EXPECT_EQ(standing.decisions, 1U);
        EXPECT_EQ(standing.step, 3U);
        EXPECT_EQ(standing.last, verdicts[r].decision);
        EXPECT_FALSE(standing.open);
      });
      const std::uint64_t sum = size * (size - 1) / 2;
      for (const VoteResult& v : verdicts) {
        EXPECT_EQ(v.decision, against == size ? Decision::kCommitted
                                              : Decision::kRolledBack);
        EXPECT_FALSE(v.stops);
        EXPECT_EQ(v.totals, std::vector<std::uint64_t>({sum, 10 * sum}));
      }
    }
  }
}

// The reason of the lowest rank that stops reaches everybody.
TEST(Vote, StopsWithAReason) {
  auto ranks = make_thread_ranks(4);
  run_ranks(ranks, [&](std::size_t r) {
    VoteResult result;
    Standing standing;
    const bool stop = r >= 2;
    vote(*ranks[r], 0,
         stop     ? Ballot::kStop
         : r == 1 ? Ballot::kNo
                  : Ballot::kYes,
         {}, standing, result,
         stop ? "rank " + std::to_string(r) + " is done" : "");
    EXPECT_EQ(result.decision, Decision::kRolledBack);
    EXPECT_TRUE(result.stops);
    EXPECT_EQ(result.stopper, 2U);
    EXPECT_EQ(result.reason, "rank 2 is done");
  });
}

TEST(Vote, NoticesRanksWithOtherBuckets) {
  ManualClock clock;
  auto ranks = make_thread_ranks(2, {&clock, nullptr, nullptr});
  std::string error;
  run_ranks(ranks, [&](std::size_t r) {
    const std::vector<std::uint64_t> counts(1 + r);
    VoteResult result;
    Standing standing;
    try {
      vote(*ranks[r], 0, Ballot::kYes, counts, standing, result);
    } catch (const CommError& e) {
      if (r == 0) error = e.what();
    }
  });
  EXPECT_NE(error.find("do all ranks have the same buckets?"),
            std::string::npos)
      << error;
}

// Ranks that took different decisions on a step must not decide another.
TEST(Vote, NoticesRanksThatDecidedOtherwise) {
  ManualClock clock;
  auto ranks = make_thread_ranks(2, {&clock, nullptr, nullptr});
  std::string error;
  run_ranks(ranks, [&](std::size_t r) {
    VoteResult result;
    Standing standing = {
        .decisions = 5,
        .step = 6,
        .last = r == 0 ? Decision::kRolledBack : Decision::kCommitted,
        .totals = {},
        .open = {}};
    try {
      vote(*ranks[r], 7, Ballot::kYes, {}, standing, result);
    } catch (const CommError& e) {
      if (r == 0) error = e.what();
    }
  });
  EXPECT_NE(error.find("the last about step 6, committed, where rank 0 has "
                       "heard 5 decisions, the last about step 6, rolled back"),
            std::string::npos)
      << error;
}

Fate drop_one(void* context, std::size_t from, std::size_t to, std::uint64_t) {
  const auto* pair =
      static_cast<const std::pair<std::size_t, std::size_t>*>(context);
  return from == pair->first && to == pair->second ? Fate::kDrop
                                                   : Fate::kDeliver;
}

// Every message of the vote lost once: after settle() all ranks have heard the
// decision, whichever it was, or none has.
TEST(Settle, EndsAllDoubtWhateverTheVoteLost) {
  constexpr std::size_t kRanks = 4;
  const auto try_vote = [](std::size_t against, std::size_t from,
                           std::size_t to) {
    std::pair<std::size_t, std::size_t> lost = {from, to};
    ManualClock clock;
    auto ranks = make_thread_ranks(kRanks, {&clock, &drop_one, &lost});
    std::vector<Standing> standings(kRanks);
    run_ranks(ranks, [&](std::size_t r) {
      try {
        const std::uint64_t count[] = {r + 1};
        VoteResult v;
        vote(*ranks[r], 7, r == against ? Ballot::kNo : Ballot::kYes, count,
             standings[r], v);
      } catch (const CommError&) {
        EXPECT_TRUE(standings[r].open);
      }
    });
    // The same ranks over a network that works, as after a rebuild.
    auto again = make_thread_ranks(kRanks);
    run_ranks(again, [&](std::size_t r) {
      const bool open = standings[r].open.has_value();
      const Settled settled = settle(*again[r], standings[r]);
      EXPECT_EQ(settled.decision,
                open ? standings[r].last : Decision::kUnknown);
    });
    // A lost ballot leaves no decision; a lost decision is heard of others.
    const Decision decision =
        against < kRanks ? Decision::kRolledBack : Decision::kCommitted;
    for (const Standing& s : standings) {
      EXPECT_EQ(s.last, from == 0 ? decision : Decision::kUnknown);
      EXPECT_EQ(s.decisions, from == 0 ? 1U : 0U);
      EXPECT_FALSE(s.open);
      EXPECT_EQ(s.totals, from == 0 ? std::vector<std::uint64_t>{10}
                                    : std::vector<std::uint64_t>{});
    }
  };
  for (std::size_t against = 0; against <= kRanks; ++against) {
    for (std::size_t r = 1; r < kRanks; ++r) {
      try_vote(against, 0, r);
      try_vote(against, r, 0);
    }
  }
}

// A rank that has gone on may have changed its buckets and begun a step.
TEST(Settle, HearsRanksThatHaveGoneOn) {
  auto ranks = make_thread_ranks(3);
  run_ranks(ranks, [&](std::size_t r) {
    Standing mine = {.decisions = 5,
                     .step = 7,
                     .last = Decision::kRolledBack,
                     .totals = {1, 2},
                     .open = {}};
    if (r == 0) {
      mine = {.decisions = 4,
              .step = 6,
              .last = Decision::kCommitted,
              .totals = {5, 6, 7},
              .open = Standing::Open{7, Ballot::kYes}};
    }
    if (r == 2) mine.open = {8, Ballot::kNone};
    const Settled settled = settle(*ranks[r], mine);
    EXPECT_EQ(settled.decision,
              r == 0 ? Decision::kRolledBack : Decision::kUnknown);
    EXPECT_EQ(settled.next_step, std::optional<std::uint64_t>(8));
    EXPECT_EQ(mine.decisions, 5U);
    EXPECT_EQ(mine.last, Decision::kRolledBack);
    EXPECT_EQ(mine.totals, std::vector<std::uint64_t>({1, 2}));
    EXPECT_FALSE(mine.open);
  });
}

// What each of two ranks brings, and what both must then say.
TEST(Settle, RefusesRanksThatNoVoteLeavesLikeThat) {
  constexpr auto kCommitted = Decision::kCommitted;
  constexpr auto kRolledBack = Decision::kRolledBack;
  struct Case {
    Standing first;
    Standing second;
    std::string_view text;
  };
  using Open = Standing::Open;
  const std::vector<Case> cases = {
      {{2, 3, kCommitted, {}, {}},
       {8, 9, kCommitted, {}, {}},
       "[settle] rank 1 has heard 8 decisions, the last about step 9, "
       "committed, but rank 0 has heard 2 decisions"},
      {{3, 3, kCommitted, {}, {}},
       {3, 3, kRolledBack, {}, {}},
       "step 3, committed, but rank 1 has heard 3 decisions, the last about "
       "step 3, rolled back"},
      // It voted no, or not at all, so nobody can have committed the step.
      {{2, 2, kCommitted, {}, Open{3, Ballot::kNo}},
       {3, 3, kCommitted, {}, {}},
       "rank 0 has heard 2 decisions, the last about step 2, committed and is "
       "in step 3"},
      {{2, 2, kCommitted, {}, Open{3, Ballot::kNone}},
       {3, 3, kRolledBack, {}, {}},
       "no vote leaves ranks like that; restart all ranks from a checkpoint"},
      {{2, 2, kCommitted, {}, Open{4, Ballot::kYes}},
       {3, 3, kCommitted, {}, {}},
       "and is in step 4"},
      {{3, 3, kCommitted, {}, Open{4, Ballot::kNone}},
       {3, 3, kCommitted, {}, Open{5, Ballot::kNone}},
       "[settle] rank 0 is in step 4, but rank 1 is in step 5 after the same "
       "decisions"},
  };
  for (const Case& c : cases) {
    auto ranks = make_thread_ranks(2);
    std::vector<std::string> errors(2);
    run_ranks(ranks, [&](std::size_t r) {
      Standing mine = r == 0 ? c.first : c.second;
      try {
        settle(*ranks[r], mine);
      } catch (const std::runtime_error& e) {
        errors[r] = e.what();
      }
    });
    EXPECT_NE(errors[0].find(c.text), std::string::npos) << errors[0];
    EXPECT_EQ(errors[1], errors[0]);
  }
}

}  // namespace
}  // namespace sluice::testing
