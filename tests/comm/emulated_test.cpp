// The emulated network, with a manual clock: time is exactly what the model
// says.

#include "sluice/comm/emulated/emulated.h"

#include "exchanger.h"
#include "ranks.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/comm/threads/threads.h"
#include "support.h"

namespace sluice::testing {
namespace {

constexpr std::size_t kHeader = 48;

std::vector<std::unique_ptr<Communicator>> emulated_ranks(std::size_t size,
                                                          const Link& link,
                                                          ManualClock& clock) {
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (auto& engine : make_thread_engines(size, {&clock, nullptr, nullptr})) {
    ranks.push_back(
        std::make_unique<Communicator>(make_emulated(std::move(engine), link)));
  }
  return ranks;
}

double seconds(const ManualClock& clock) {
  return std::chrono::duration<double>(clock.now().time_since_epoch()).count();
}

// The time after which all ranks have run f.
double time_of(std::size_t size, const Link& link,
               const std::function<void(Communicator&)>& f) {
  ManualClock clock;
  auto ranks = emulated_ranks(size, link, clock);
  run_ranks(ranks, [&](std::size_t r) { f(*ranks[r]); });
  return seconds(clock);
}

const Link kLink = {1e-3, 1e-6, {}};  // 1 ms and 1 us per byte

double message(std::size_t bytes) {
  return 1e-3 + 1e-6 * static_cast<double>(bytes + kHeader);
}

TEST(Emulated, OneMessageTakesAlphaPlusBeta) {
  const double t = time_of(2, kLink, [](Communicator& comm) {
    comm.begin("test", 0);
    if (comm.rank() == 0) comm.send(1, 0, Bytes(1000));
    if (comm.rank() == 1) comm.receive(0, 0);
  });
  EXPECT_NEAR(t, message(1000), 1e-8);
}

TEST(Emulated, RanksOfAMachineHaveANetworkOfTheirOwn) {
  const Link link = parse_link("1ms,1e-6,machine=2/10us/1e-9");
  EXPECT_EQ(describe(link),
            "1000 us, 0.008 Gbit/s, machines of 2 with 10 us, 8 Gbit/s");
  for (const std::size_t from : {1, 3}) {
    const double t = time_of(4, link, [&](Communicator& comm) {
      EXPECT_EQ(comm.machine(), comm.rank() / 2 * 2);
      comm.begin("test", 0);
      if (comm.rank() == from) comm.send(2, 0, Bytes(952));
      if (comm.rank() == 2) comm.receive(from, 0);
    });
    EXPECT_NEAR(t, from == 3 ? 11e-6 : 2e-3, 1e-8);
  }
  for (const char* bad : {"1ms,1e-6,machine=2", "1ms,1e-6,machine=0/1us/1Gbit",
                          "1ms,1e-6,machine=2/1us", "1ms,1e-6,machine=2.5/0/0",
                          "1ms,1e-6,machine=2/x/1Gbit"}) {
    EXPECT_THROW(parse_link(bad), std::invalid_argument) << bad;
  }
}

TEST(Emulated, BothDirectionsGoAtOnce) {
  const double t = time_of(2, kLink, [](Communicator& comm) {
    comm.begin("test", 0);
    comm.send(1 - comm.rank(), 0, Bytes(1000));
    comm.receive(1 - comm.rank(), 0);
  });
  EXPECT_NEAR(t, message(1000), 1e-8);
}

// One port each way: everybody to everybody takes P - 1 messages' time, and so
// does one rank that sends to, or gets from, all others.
TEST(Emulated, PortsAreSerialised) {
  for (const int kind : {0, 1, 2}) {
    const double t = time_of(5, kLink, [&](Communicator& comm) {
      comm.begin("test", 0);
      for (std::size_t d = 1; d < 5; ++d) {
        const std::size_t peer = (comm.rank() + d) % 5;
        const bool send = kind == 0 || (kind == 1 && comm.rank() == 0) ||
                          (kind == 2 && peer == 0);
        if (send) comm.send(peer, 0, Bytes(500));
      }
      for (std::size_t d = 1; d < 5; ++d) {
        const std::size_t peer = (comm.rank() + 5 - d) % 5;
        const bool get = kind == 0 || (kind == 1 && peer == 0) ||
                         (kind == 2 && comm.rank() == 0);
        if (get) comm.receive(peer, 0);
      }
    });
    EXPECT_NEAR(t, 4 * message(500), 1e-8) << "kind " << kind;
  }
}

TEST(Emulated, ASlowRankSlowsItsMessages) {
  Link link = kLink;
  link.slow_downs = {1, 3};
  const auto send_to = [](std::size_t to) {
    return [to](Communicator& comm) {
      comm.begin("test", 0);
      if (comm.rank() == 0) comm.send(to, 0, Bytes(100));
      if (comm.rank() == to) comm.receive(0, 0);
    };
  };
  EXPECT_NEAR(time_of(3, link, send_to(1)), 3 * message(100), 1e-8);
  EXPECT_NEAR(time_of(3, link, send_to(2)), message(100), 1e-8);
}

// The ring moves 2 (P - 1) / P of the bytes and no more.
TEST(Emulated, DenseRingTakesItsIdealTime) {
  const Link link = {0, 1e-6, {}};
  constexpr std::size_t kSize = 1 << 20;
  const double t = time_of(4, link, [](Communicator& comm) {
    Exchanger exchanger;
    exchanger.reduce(std::string("dense:by=ring"), comm, {},
                     {.n = kSize, .k = 1});
  });
  const double ideal = 2.0 * 3 / 4 * kSize * 4 * 1e-6;
  EXPECT_NEAR(t, ideal, 0.01 * ideal);
}

TEST(Link, ReadsUnitsAndRefusesGarbage) {
  const Link link = parse_link("50us,1Gbit,3=2.5");
  EXPECT_DOUBLE_EQ(link.alpha, 5e-5);
  EXPECT_DOUBLE_EQ(link.beta, 8e-9);
  EXPECT_EQ(link.slow_down(3), 2.5);
  EXPECT_EQ(link.slow_down(2), 1);
  EXPECT_EQ(link.slow_down(9), 1);
  EXPECT_DOUBLE_EQ(parse_link("5e-5,8e-9").beta, 8e-9);
  EXPECT_DOUBLE_EQ(parse_link("2ms,100Mbit").beta, 8e-8);
  EXPECT_EQ(describe(parse_link("50us,1Gbit,1=2")),
            "50 us, 1 Gbit/s, rank 1 2x slower");
  for (const char* text :
       {"", "1", ",", "1us,", "-1us,1Gbit", "1us,0Gbit", "1us,1Gbit,2",
        "1us,1Gbit,x=2", "1us,1Gbit,0=0.5", "1us,1Gbit,=", "nan,1",
        "1us,1Gbit,1.5=2", "1us,1Gbit,99999999999=2", "1xs,1"}) {
    EXPECT_THROW(parse_link(text), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace sluice::testing
