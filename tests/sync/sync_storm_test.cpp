// Training steps in which messages are lost and damaged at random, one after
// the other: whatever happens, law 1 holds over all steps and replicas stay
// equal.
//
// SLUICE_TEST_SEED and SLUICE_TEST_ROUNDS choose other faults and more of them,
// as tools/soak does.

#include <cstdlib>
#include <string>

#include "sluice/core/ensure.h"
#include "sync/sync_support.h"

namespace sluice::testing {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

// Messages that meet their fate, by a hash of seed, sender and number. After
// one of them there is calm until all ranks have recovered.
struct Storm {
  std::uint64_t seed;
  std::size_t ranks;
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> recovered{0};
  std::atomic<bool> over{false};

  static Fate decide(void* context, std::size_t from, std::size_t to,
                     std::uint64_t number) {
    auto& self = *static_cast<Storm*>(context);
    constexpr std::uint64_t kOneIn = 400;
    const std::uint64_t h = mix64(self.seed, 100 * from + to, number);
    std::uint64_t hits = self.hits;
    if (self.over || h % kOneIn != 0 || self.recovered < hits * self.ranks ||
        !self.hits.compare_exchange_strong(hits, hits + 1)) {
      return Fate::kDeliver;
    }
    return h / kOneIn % 3 == 0 ? Fate::kCorrupt : Fate::kDrop;
  }
};

Scenario draw(std::uint64_t seed, bool machines) {
  auto pick =
      [&, n = std::uint64_t{0}](const std::vector<std::string>& from) mutable {
        return from[mix64(seed, 77, n++) % from.size()];
      };
  Scenario job;
  job.plan = pick({"layerwise", "single", "size=3k"});
  job.sparsifier = pick({"topk", "adtopk", "tile", "sidco-e", "dgc"});
  job.collective = pick({"allgather", "balanced", "oktopk", "sparcml-rd",
                         "sparcml-split", "gtopk", "gtopk-tree", "auto"});
  job.backend =
      pick({"cpu/portable", "fake", "cpu/portable+link", "fake+link"});
  job.pieces = 1 + mix64(seed, 79) % 3;
  if (mix64(seed, 80) % 2 == 0) job.turns = {pick({"topk", "adtopk"})};
  job.ranks = 2 + mix64(seed, 78) % 4;
  job.steps = 12;
  if (!machines) {
    job.offload = mix64(seed, 81) % 2 == 0;
    return job;
  }
  job.ranks += 2;
  for (std::size_t r = 0; r < job.ranks; ++r) {
    job.machine_of.push_back(mix64(seed, 79, r) % 3);
  }
  return job;
}

// What a rank has brought, received and kept, in all of its steps.
struct Account {
  std::vector<double> brought = std::vector<double>(total_size());
  std::vector<double> size = std::vector<double>(total_size());  // of it all
  std::vector<double> received = std::vector<double>(total_size());
  std::vector<float> residual;
};

constexpr std::size_t kMostRecoveries = 100;

class Trainer {
 public:
  Trainer(Communicator& comm, LinkHub& hub, const Scenario& job, Storm& storm)
      : comm_(comm),
        job_(job),
        storm_(storm),
        backend_(make_backend(job.backend)),
        link_(make_link(job.backend, hub, comm, *backend_)),
        device_(*backend_),
        sync_(comm, *backend_, kTensors, options_of(job, link_.get())) {}

  Account run() {
    // The last one is a barrier: nobody leaves while another must recover.
    for (std::uint64_t step = 0; step <= job_.steps; ++step) {
      const bool trains = step < job_.steps;
      const Gradients gradients = gradients_of(comm_.rank(), step);
      bool committed = trains;
      try {
        if (trains) {
          device_.run(sync_, step, gradients);
        } else {
          // Nothing could tell whoever missed the end of it from a rank that
          // left.
          storm_.over = true;
          comm_.barrier(1000);
        }
      } catch (const CommError&) {
        // A rank that is gone would otherwise keep the others at it for ever.
        ensure(++recoveries_ < kMostRecoveries, "[storm] no end of failures");
        committed = sync_.recover() && trains;
        ++storm_.recovered;
        // Whoever was one step ahead takes it up again.
        if (!committed) --step;
      }
      if (trains) enter(flat(gradients), committed);
    }
    account_.residual = sync_.save().residual;
    return account_;
  }

 private:
  static SyncOptions options_of(const Scenario& job, DeviceLink* link) {
    SyncOptions options;
    options.link = link;
    options.plan = plan_of(job);
    options.network = Network{};
    options.machine_of = job.machine_of;
    return options;
  }

  // Of a step that was rolled back the sparse part is in the residual, and the
  // dense part is the caller's again.
  void enter(const std::vector<float>& gradient, bool committed) {
    const std::vector<float> after = device_.get();
    std::size_t j = 0;
    for (const TensorInfo& t : kTensors) {
      const bool dense = t.dims.size() < 2;
      for (std::size_t i = 0; i < size_of(t); ++i, ++j) {
        if (committed || !dense) {
          account_.brought[j] += double(gradient[j]);
          account_.size[j] += std::abs(double(gradient[j]));
        }
        if (committed) account_.received[j] += double(after[j]);
      }
    }
  }

  Communicator& comm_;
  const Scenario& job_;
  Storm& storm_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<DeviceLink> link_;
  DeviceGradients device_;
  GradientSync sync_;
  Account account_;
  std::size_t recoveries_ = 0;
};

void expect_law(const std::vector<Account>& ranks) {
  for (std::size_t j = 0; j < total_size(); ++j) {
    double owed = 0;
    double size = 0;
    double have = double(ranks.size()) * ranks[0].received[j];
    for (const Account& rank : ranks) {
      ASSERT_EQ(rank.received[j], ranks[0].received[j]) << "index " << j;
      owed += rank.brought[j];
      size += rank.size[j];
      have += double(rank.residual[j]);
    }
    ASSERT_NEAR(have, owed, 1e-5 + 2e-6 * size) << "index " << j;
  }
}

void weather(bool machines) {
  const std::uint64_t first = from_environment("SLUICE_TEST_SEED", 1);
  const std::uint64_t rounds = from_environment("SLUICE_TEST_ROUNDS", 10);
  std::uint64_t hits = 0;
  for (std::uint64_t seed = first; seed < first + rounds; ++seed) {
    const Scenario job = draw(seed, machines);
    SCOPED_TRACE(::testing::Message()
                 << "SLUICE_TEST_SEED=" << seed << ": " << job.ranks
                 << " ranks, " << job.plan << ", " << job.sparsifier
                 << (job.turns.empty() ? "" : "/" + job.turns[0]) << ", "
                 << job.pieces << " pieces, " << job.collective << ", "
                 << job.backend << (job.offload ? ", offloaded" : ""));
    ManualClock clock;
    Storm storm{seed, job.ranks};
    auto ranks = make_thread_ranks(job.ranks, {&clock, &Storm::decide, &storm});
    LinkHub hub(&Storm::decide, &storm);
    std::vector<Account> accounts(job.ranks);
    run_ranks(ranks, [&](std::size_t r) {
      accounts[r] = Trainer(*ranks[r], hub, job, storm).run();
    });
    if (::testing::Test::HasFailure()) return;
    expect_law(accounts);
    if (::testing::Test::HasFailure()) return;
    hits += storm.hits;
  }
  EXPECT_GT(hits, rounds);
}

TEST(SyncStorm, LosesNothingAndReplicasStayEqual) { weather(false); }

TEST(SyncStorm, LosesNothingBetweenMachines) { weather(true); }

}  // namespace
}  // namespace sluice::testing
