// Parts of a communicator: what runs on all ranks runs on some of them.

#include "exchanger.h"
#include "ranks.h"
#include "sluice/collective/patterns.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/comm/machines.h"
#include "support.h"

namespace sluice::testing {
namespace {

using Members = std::vector<std::size_t>;

TEST(Group, CountsPlacesAmongItsMembers) {
  auto ranks = make_thread_ranks(5);
  const Members odd = {1, 3};
  const Members even = {0, 2, 4};
  run_ranks(ranks, [&](std::size_t r) {
    Communicator& comm = *ranks[r];
    const Members& members = r % 2 == 1 ? odd : even;
    {
      const Communicator::Group group(comm, members);
      ASSERT_EQ(comm.size(), members.size());
      ASSERT_EQ(comm.rank(), r / 2);
      comm.begin("shift", 7);
      const std::uint64_t mine = r;
      comm.send((comm.rank() + 1) % comm.size(), 3,
                std::as_bytes(std::span(&mine, 1)));
      const std::size_t before = (comm.rank() + comm.size() - 1) % comm.size();
      std::uint64_t theirs = 99;
      std::memcpy(&theirs, comm.receive(before, 3).data(), sizeof(theirs));
      EXPECT_EQ(theirs, members[before]);
      EXPECT_FALSE(comm.native_sum({}, {}));
      EXPECT_THROW(Communicator::Group(comm, members), std::logic_error);
      comm.barrier(8);
    }
    EXPECT_EQ(comm.size(), 5U);
    EXPECT_EQ(comm.rank(), r);
    EXPECT_GT(comm.traffic().bytes_received, 48U);
    EXPECT_THROW(Communicator::Group(comm, r % 2 == 1 ? even : odd),
                 std::logic_error);
    EXPECT_THROW(Communicator::Group(comm, Members{r, 5}), std::logic_error);
    EXPECT_EQ(comm.size(), 5U);
    comm.barrier(9);
  });
}

// Every collective gives the members' sum, and the others know nothing of it.
TEST(Group, RunsEveryCollective) {
  const Members members = {1, 2, 4};
  for (const CollectiveEntry& entry : collectives()) {
    auto ranks = make_thread_ranks(5);
    run_ranks(ranks, [&](std::size_t r) {
      Communicator& comm = *ranks[r];
      if (r % 3 != 0) {
        const Communicator::Group group(comm, members);
        Exchanger exchanger;
        auto collective = make_collective(entry.name);
        exchanger.reduce(*collective, comm, {{5}, {float(r)}},
                         {.n = 10, .rest = std::vector<float>(10)});
        EXPECT_EQ(exchanger.sum()[5], 7.0F) << entry.name;
      }
      comm.barrier(100);
    });
  }
}

// What a rank that waits in a group says, and whom it takes for the cause.
struct Complaints {
  std::vector<std::string> errors;
  std::vector<std::size_t> suspects;
};

// Ranks 0 and 2 meet, 1 and 3 do; `dead` never calls, and all meet at the end.
Complaints without(std::size_t dead) {
  ManualClock clock;
  auto ranks = make_thread_ranks(4, {&clock, nullptr, nullptr});
  Complaints out{std::vector<std::string>(4), std::vector<std::size_t>(4, 99)};
  run_ranks(ranks, [&](std::size_t r) {
    if (r == dead) return;
    Communicator& comm = *ranks[r];
    try {
      {
        const Members members = {r % 2, r % 2 + 2};
        const Communicator::Group group(comm, members);
        comm.barrier(4);
      }
      comm.barrier(5);
    } catch (const CommError& e) {
      out.errors[r] = e.what();
      out.suspects[r] = e.suspect();
      EXPECT_EQ(e.rank(), r);
      EXPECT_EQ(comm.size(), 4U);
    }
  });
  return out;
}

TEST(Group, ErrorsNameRanksAsOutside) {
  const Complaints out = without(3);
  EXPECT_NE(out.errors[1].find("[barrier] rank 1 waited 60 s for rank 3 in "
                               "step 4 phase 1; rank 3 does not answer"),
            std::string::npos)
      << out.errors[1];
  // The others are outside of that group, and learn it all the same.
  for (const std::size_t r : {0, 1, 2}) EXPECT_EQ(out.suspects[r], 3U) << r;
}

TEST(Group, HearsWhatOutsidersSay) {
  auto ranks = make_thread_ranks(3);
  std::vector<std::string> errors(3);
  const Members pair = {0, 2};
  run_ranks(ranks, [&](std::size_t r) {
    Communicator& comm = *ranks[r];
    try {
      if (r == 1) comm.abandon("load", 2, "[load] rank 1 has no disk");
      const Communicator::Group group(comm, pair);
      comm.begin("wait", 2);
      comm.receive(1 - comm.rank(), 0);
    } catch (const CommError& e) {
      errors[r] = e.what();
    }
  });
  for (const std::size_t r : {0, 2}) {
    EXPECT_NE(errors[r].find("rank 1 gave up in step 2: [load] rank 1 has no "
                             "disk"),
              std::string::npos)
        << errors[r];
  }
}

TEST(Group, FindsAnotherOrderOfCalls) {
  ManualClock clock;
  auto ranks = make_thread_ranks(4, {&clock, nullptr, nullptr});
  std::vector<std::string> errors(4);
  const Members pair = {1, 3};
  run_ranks(ranks, [&](std::size_t r) {
    if (r % 2 == 0) return;
    Communicator& comm = *ranks[r];
    const Communicator::Group group(comm, pair);
    try {
      comm.begin("first", 1);
      comm.send(1 - comm.rank(), r == 1 ? 0 : 1, std::span<const std::byte>());
      comm.receive(1 - comm.rank(), 0);
      comm.receive(1 - comm.rank(), 0);
    } catch (const CommError& e) {
      errors[r] = e.what();
    }
  });
  EXPECT_NE(errors[1].find("[first] rank 1 got from rank 3 in step 1: step 1 "
                           "phase 1 where step 1 phase 0 was due"),
            std::string::npos)
      << errors[1];
}

TEST(Machines, KnowWhoSharesThem) {
  const Members interleaved = {7, 3, 7, 3, 9};
  const Machines second(interleaved, 3, 5);
  EXPECT_EQ(Members(second.mine().begin(), second.mine().end()),
            (Members{1, 3}));
  EXPECT_EQ(Members(second.leaders().begin(), second.leaders().end()),
            (Members{0, 1, 4}));
  EXPECT_TRUE(second.shared());
  EXPECT_FALSE(second.leads());
  EXPECT_FALSE(second.alone());
  const Machines last(interleaved, 4, 5);
  EXPECT_TRUE(last.leads());
  EXPECT_TRUE(last.alone());
  EXPECT_EQ(last.digest(), second.digest());
  EXPECT_NE(Machines(Members{0, 0, 1, 1, 2}, 3, 5).digest(), second.digest());
  EXPECT_FALSE(Machines(Members{2, 1, 0}, 1, 3).shared());
  EXPECT_THROW(Machines(Members{0, 0}, 0, 3), std::invalid_argument);
  EXPECT_EQ(machines_of(5, 2), (Members{0, 0, 1, 1, 2}));
  EXPECT_THROW(machines_of(5, 0), std::invalid_argument);
}

// Ranks that are threads share one.
TEST(Machines, AreGatheredFromTheEngine) {
  auto ranks = make_thread_ranks(3);
  run_ranks(ranks, [&](std::size_t r) {
    EXPECT_EQ(gather_machines(*ranks[r]), Members(3, 0));
  });
}

}  // namespace
}  // namespace sluice::testing
