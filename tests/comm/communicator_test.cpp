// Deadlines, blame and epochs, on ranks that are threads with a clock
// that jumps: nothing here sleeps.

#include "sluice/comm/communicator.h"

#include <bit>

#include "exchanger.h"
#include "ranks.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/comm/threads/threads.h"
#include "support.h"

namespace sluice::testing {
namespace {

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

void all_to_all(Communicator& comm, std::uint64_t step) {
  comm.begin("all-to-all", step);
  for (std::size_t p = 0; p < comm.size(); ++p) {
    if (p != comm.rank()) comm.send(p, 1, bytes_of({1, 2}));
  }
  for (std::size_t p = 0; p < comm.size(); ++p) {
    if (p != comm.rank()) comm.receive(p, 1);
  }
}

TEST(Communicator, CountsWhatCrossesItsPorts) {
  auto ranks = make_thread_ranks(3);
  std::vector<Traffic> traffic(3);
  run_ranks(ranks, [&](std::size_t r) {
    all_to_all(*ranks[r], 0);
    traffic[r] = ranks[r]->traffic();
  });
  for (const Traffic& t : traffic) {
    EXPECT_EQ(t.bytes_sent, 2 * (48 + 2));
    EXPECT_EQ(t.bytes_received, 2 * (48 + 2));
    EXPECT_EQ(t.messages_sent, 2);
  }
}

TEST(Communicator, NamesTheRankThatNeverCalls) {
  ManualClock clock;
  auto ranks = make_thread_ranks(4, {&clock, nullptr, nullptr});
  std::vector<std::string> errors(4);
  std::vector<std::size_t> suspects(4, 99);
  run_ranks(ranks, [&](std::size_t r) {
    if (r == 2) return;  // never calls
    Exchanger exchanger;
    try {
      exchanger.reduce(std::string("sparcml-rd"), *ranks[r], {{1, 5}, {1, 2}},
                       {.n = 10, .step = 7});
    } catch (const CommError& e) {
      errors[r] = e.what();
      suspects[r] = e.suspect();
      // It stays failed.
      EXPECT_THROW(ranks[r]->begin("next", 8), CommError);
    }
  });
  for (const std::size_t r : {0, 1, 3}) {
    EXPECT_NE(errors[r].find("[sparcml-rd] rank"), std::string::npos);
    EXPECT_NE(errors[r].find("step 7"), std::string::npos) << errors[r];
    EXPECT_EQ(suspects[r], 2U) << errors[r];
  }
}

// What is no part of a step has no number, however steps are counted.
TEST(Communicator, NamesNoStepBetweenSteps) {
  ManualClock clock;
  auto ranks = make_thread_ranks(2, {&clock, nullptr, nullptr});
  std::string error;
  run_ranks(ranks, [&](std::size_t r) {
    if (r == 1) return;  // never calls
    ranks[r]->count_steps(4, 1);
    try {
      ranks[r]->barrier(Communicator::kBetweenSteps);
    } catch (const CommError& e) {
      error = e.what();
    }
  });
  EXPECT_NE(error.find("for rank 1 in a call between steps phase 1"),
            std::string::npos)
      << error;
}

// Work that goes another way than by messages has the same deadline, and hears
// of ranks that give up.
TEST(Communicator, WaitsForOtherWorkNoLongerThanForMessages) {
  ManualClock clock;
  auto ranks = make_thread_ranks(3, {&clock, nullptr, nullptr});
  std::vector<std::string> errors(3);
  run_ranks(ranks, [&](std::size_t r) {
    Communicator& comm = *ranks[r];
    comm.begin("sum", 4);
    int asked = 0;
    comm.wait_until([&] { return ++asked == 500; }, " on the device");
    EXPECT_EQ(asked, 500);
    if (r == 1) return;  // is gone
    try {
      comm.wait_until([] { return false; }, " on the device");
    } catch (const CommError& e) {
      errors[r] = e.what();
      EXPECT_EQ(e.suspect(), 1U);
    }
  });
  for (const std::size_t r : {0, 2}) {
    EXPECT_NE(errors[r].find("s for all others in step 4 on the device; rank 1 "
                             "does not answer"),
              std::string::npos)
        << errors[r];
  }
}

// What each rank says when rank 1 of three ends in step 4, where the others do
// `work`, and by the clock how long they took.
std::vector<std::string> when_rank_1_ends(
    ManualClock& clock, const std::function<void(Communicator&)>& work) {
  auto ranks = make_thread_ranks(3, {&clock, nullptr, nullptr, true});
  std::vector<std::string> errors(3);
  run_ranks(ranks, [&](std::size_t r) {
    Communicator& comm = *ranks[r];
    comm.begin("sum", 4);
    if (r == 1) return;
    try {
      work(comm);
    } catch (const CommError& e) {
      errors[r] = e.what();
      EXPECT_EQ(e.suspect(), 1U) << e.what();
    }
  });
  return errors;
}

// A connection that is closed is no reason to wait for a deadline. Rank 2 waits
// for rank 0 alone.
TEST(Communicator, NoticesARankThatEndsAtOnce) {
  ManualClock clock;
  const auto errors = when_rank_1_ends(clock, [](Communicator& comm) {
    comm.receive(comm.rank() == 0 ? 1 : 0, 1);
  });
  for (const std::size_t r : {0, 2}) {
    EXPECT_NE(errors[r].find("rank 1 has closed its connection: did it end or "
                             "crash?"),
              std::string::npos)
        << errors[r];
  }
  EXPECT_LT(clock.now().time_since_epoch(), std::chrono::seconds(2));
}

TEST(Communicator, NoticesARankThatEndsBesideOtherWork) {
  ManualClock clock;
  const auto errors = when_rank_1_ends(clock, [](Communicator& comm) {
    comm.wait_until([] { return false; }, " on the device");
  });
  for (const std::size_t r : {0, 2}) {
    EXPECT_NE(errors[r].find("on the device; rank 1 has closed"),
              std::string::npos)
        << errors[r];
  }
  EXPECT_LT(clock.now().time_since_epoch(), std::chrono::seconds(5));
}

// Who has said all that the others wait for may leave.
TEST(Communicator, TakesWhatARankSentBeforeItEnded) {
  auto ranks = make_thread_ranks(3, {.closes = true});
  run_ranks(ranks, [&](std::size_t r) {
    Communicator& comm = *ranks[r];
    comm.begin("chain", 0);
    if (r == 0) {
      for (const std::uint32_t phase : {1, 2})
        comm.send(1, phase, bytes_of({7}));
    } else if (r == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      comm.send(1, 3, bytes_of({7}));
    } else {
      comm.receive(2, 3);
      for (const std::uint32_t phase : {1, 2}) comm.receive(0, phase);
      EXPECT_THROW(comm.receive(0, 3), CommError);
    }
  });
}

// Another thread may end a wait, and all ranks learn why.
TEST(Communicator, CanBeInterrupted) {
  auto ranks = make_thread_ranks(3);
  std::vector<std::string> errors(3);
  run_ranks(ranks, [&](std::size_t r) {
    Communicator& comm = *ranks[r];
    std::thread other;
    if (r == 0) {
      other = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        comm.interrupt("[test] the user is tired");
      });
    }
    try {
      comm.begin("wait", 4);
      comm.receive((r + 1) % 3, 1);
    } catch (const CommError& e) {
      errors[r] = e.what();
      EXPECT_EQ(e.suspect(), 0U) << e.what();
    }
    if (other.joinable()) other.join();
    // It is over.
    comm.rebuild();
    comm.barrier(9);
  });
  EXPECT_EQ(errors[0], "[test] the user is tired");
  for (const std::size_t r : {1, 2}) {
    EXPECT_NE(errors[r].find("rank 0 gave up in step 4: [test] the user is "
                             "tired"),
              std::string::npos)
        << errors[r];
  }
}

TEST(Communicator, KeepsTheDeadlineItWasGiven) {
  ManualClock clock;
  auto ranks = make_thread_ranks(2, {&clock, nullptr, nullptr});
  std::string error;
  run_ranks(ranks, [&](std::size_t r) {
    if (r == 1) return;
    ranks[r]->set_timeout(std::chrono::seconds(5));
    try {
      all_to_all(*ranks[r], 0);
    } catch (const CommError& e) {
      error = e.what();
    }
  });
  EXPECT_NE(error.find("waited 5 s for rank 1"), std::string::npos) << error;
  const auto late = clock.now().time_since_epoch();
  EXPECT_GE(late, std::chrono::seconds(5));
  EXPECT_LT(late, std::chrono::seconds(6));
}

// Bucket order, plan and step all show in the step or the phase.
TEST(Communicator, NoticesAPeerInAnotherStep) {
  ManualClock clock;
  auto ranks = make_thread_ranks(2, {&clock, nullptr, nullptr});
  std::vector<std::string> errors(2);
  run_ranks(ranks, [&](std::size_t r) {
    try {
      all_to_all(*ranks[r], 3 + r);
    } catch (const CommError& e) {
      errors[r] = e.what();
    }
  });
  EXPECT_NE(errors[0].find("got from rank 1 in step 3: step 4 phase 1 where "
                           "step 3 phase 1 was due"),
            std::string::npos)
      << errors[0];
}

TEST(Communicator, StartsOverInANewEpoch) {
  ManualClock clock;
  auto ranks = make_thread_ranks(3, {&clock, nullptr, nullptr});
  std::vector<int> good(3, 0);
  run_ranks(ranks, [&](std::size_t r) {
    Communicator& comm = *ranks[r];
    // Rank 1 misses a call; what the others sent it is still under way later.
    if (r != 1) {
      EXPECT_THROW(all_to_all(comm, 1), CommError);
      EXPECT_TRUE(comm.failed());
    }
    comm.rebuild();
    EXPECT_EQ(comm.epoch(), 1U);
    all_to_all(comm, 1);
    all_to_all(comm, 2);
    good[r] = 1;
  });
  EXPECT_EQ(good, std::vector<int>({1, 1, 1}));
}

// A rank that has not noticed yet meets one that has started over: its frame
// is kept for the new epoch.
TEST(Communicator, FollowsAPeerThatHasStartedOver) {
  ManualClock clock;
  auto ranks = make_thread_ranks(2, {&clock, nullptr, nullptr});
  run_ranks(ranks, [&](std::size_t r) {
    Communicator& comm = *ranks[r];
    if (r == 0) comm.rebuild();
    if (r == 1) {
      try {
        comm.begin("wait", 0);
        comm.receive(0, 9);
        ADD_FAILURE() << "nobody sent that";
      } catch (const CommError& e) {
        EXPECT_NE(
            std::string(e.what()).find("recover on all ranks to follow it"),
            std::string::npos)
            << e.what();
      }
      comm.rebuild();
    }
    all_to_all(comm, 5);
  });
}

// It has said why it gave up: that is what a rank wants to know that comes to
// read it together with the first frame of the new epoch.
TEST(Communicator, TellsWhyAPeerHasStartedOver) {
  auto ranks = make_thread_ranks(2);
  Communicator& first = *ranks[0];
  EXPECT_THROW(first.abandon("exchange", 3, "it was told to"), CommError);
  first.rebuild();
  first.begin("settle", 3);
  first.send(1, 0, {});
  try {
    ranks[1]->begin("wait", 3);
    ranks[1]->receive(0, 0);
    ADD_FAILURE() << "nobody sent that";
  } catch (const CommError& e) {
    EXPECT_NE(std::string(e.what()).find("it was told to"), std::string::npos)
        << e.what();
  }
  ranks[1]->rebuild();
  ranks[1]->begin("settle", 3);
  EXPECT_TRUE(ranks[1]->receive(0, 0).empty());
}

// It started over once more before a rank had come to follow it: what it sent
// at first is old by then.
TEST(Communicator, FollowsAPeerThatHasStartedOverTwice) {
  auto ranks = make_thread_ranks(2);
  const auto send = [&](int value) {
    ranks[0]->rebuild();
    ranks[0]->begin("settle", 3);
    ranks[0]->send(1, 0, bytes_of({value}));
  };
  send(1);
  ranks[1]->begin("wait", 3);
  EXPECT_THROW(ranks[1]->receive(0, 0), CommError);
  send(2);
  ranks[1]->rebuild();
  ranks[1]->rebuild();
  ranks[1]->begin("settle", 3);
  EXPECT_EQ(ranks[1]->receive(0, 0)[0], std::byte{2});
}

// Nor is it data if it gave up.
TEST(Communicator, HearsAPeerThatHasStartedOverAndGivenUp) {
  auto ranks = make_thread_ranks(2);
  ranks[0]->rebuild();
  EXPECT_THROW(ranks[0]->abandon("settle", 3, "it was told to"), CommError);
  ranks[1]->begin("wait", 3);
  EXPECT_THROW(ranks[1]->receive(0, 0), CommError);
  ranks[1]->rebuild();
  ranks[1]->begin("settle", 3);
  try {
    ranks[1]->receive(0, 0);
    ADD_FAILURE() << "nobody sent that";
  } catch (const CommError& e) {
    EXPECT_NE(std::string(e.what()).find("it was told to"), std::string::npos)
        << e.what();
  }
}

TEST(Communicator, BarrierAndFinishWorkForAnyNumber) {
  for (const std::size_t size : {1, 2, 3, 5, 8, 64}) {
    auto ranks = make_thread_ranks(size);
    run_ranks(ranks, [&](std::size_t r) {
      ranks[r]->barrier(0);
      ranks[r]->barrier(1);
      ranks[r]->finish();
    });
  }
}

}  // namespace
}  // namespace sluice::testing
