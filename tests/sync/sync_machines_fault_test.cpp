// What hierarchical plans keep: when messages are lost, plans change, and runs
// are resumed.

#include "sluice/comm/machines.h"
#include "sync/sync_support.h"

namespace sluice::testing::machines_fault_test {
namespace {

using Layout = std::vector<std::size_t>;

SyncOptions options_of(const Scenario& job) {
  SyncOptions options;
  options.plan = plan_of(job);
  options.machine_of = job.machine_of;
  options.network = Network{};
  return options;
}

// Sums over the ranks, by element.
class Books {
 public:
  void bring(const std::vector<float>& gradient) { add(owed_, gradient, 1); }
  void keep(const std::vector<float>& residual) { add(have_, residual, 1); }
  void receive(const std::vector<float>& mean, std::size_t ranks) {
    add(have_, mean, static_cast<double>(ranks));
  }
  void expect_balance(const std::string& where) const {
    for (std::size_t j = 0; j < owed_.size(); ++j) {
      ASSERT_NEAR(have_[j], owed_[j], 5e-5) << where << " index " << j;
    }
  }

 private:
  void add(std::vector<double>& to, const std::vector<float>& v, double times) {
    const std::lock_guard lock(mutex_);
    to.resize(total_size());
    for (std::size_t j = 0; j < to.size(); ++j) to[j] += times * double(v[j]);
  }

  std::mutex mutex_;
  std::vector<double> owed_;
  std::vector<double> have_;
};

bool is_dense(std::size_t index) {
  for (const TensorInfo& t : kTensors) {
    if (index < size_of(t)) return t.dims.size() < 2;
    index -= size_of(t);
  }
  return false;
}

const Layout kInterleaved = {0, 1, 0, 1, 0};

// A step that meets the fault, then one that does not. Returns how many
// messages the sender had for the first.
std::uint64_t run_with_fault(const std::string& backend_name,
                             const std::string& collective, Injection& lost) {
  const std::size_t size = kInterleaved.size();
  ManualClock clock;
  auto ranks = make_thread_ranks(size, lost.options(clock));
  std::vector<int> committed(size, -1);
  std::vector<std::vector<float>> last(size);
  std::uint64_t messages = 0;
  Books books;
  run_ranks(ranks, [&](std::size_t r) {
    Scenario job;
    job.plan = "single";
    job.collective = collective;
    job.machine_of = kInterleaved;
    auto backend = make_backend(backend_name);
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options_of(job));
    std::vector<float> g = flat(gradients_of(r, 0));
    bool finished = false;
    try {
      const SyncReport report = device.run(sync, 0, gradients_of(r, 0));
      finished = report.committed;
      if (r == lost.from) messages = report.traffic.messages_sent;
      ranks[r]->barrier(100);  // notices what others have noticed
    } catch (const CommError&) {
    }
    committed[r] = was_committed(finished, sync.recover()) ? 1 : 0;
    const std::vector<float> residual = sync.save().residual;
    const std::vector<float> after = device.get();
    for (std::size_t j = 0; j < total_size() && committed[r] == 0; ++j) {
      ASSERT_EQ(is_dense(j) ? after[j] : residual[j], g[j]) << j;
      if (is_dense(j)) g[j] = 0;  // is the caller's again
    }
    books.bring(g);
    if (committed[r] == 1 && r == 0) books.receive(after, size);
    EXPECT_TRUE(device.run(sync, 1, gradients_of(r, 1)).committed);
    last[r] = device.get();
    books.bring(flat(gradients_of(r, 1)));
    if (r == 0) books.receive(last[r], size);
    books.keep(sync.save().residual);
  });
  for (std::size_t r = 1; r < size; ++r) {
    EXPECT_EQ(committed[r], committed[0]);
    EXPECT_EQ(last[r], last[0]);
  }
  books.expect_balance("after the fault");
  return messages;
}

// Law 4, whichever message of whichever rank is lost: every rank keeps its own
// gradient, or all have the mean; then the next step goes on from there.
TEST(HierarchicalFaults, AFailedStepLosesNoGradient) {
  for (const std::string backend : {"cpu/portable", "fake"}) {
    for (const std::string collective : {"allgather", "balanced", "auto"}) {
      for (const std::size_t sender : {0, 1, 2, 3}) {
        Injection none(sender, ~std::uint64_t{0}, Fate::kDrop);
        const std::uint64_t messages =
            run_with_fault(backend, collective, none);
        EXPECT_GT(messages, 1U);
        for (std::uint64_t number = 0; number < messages; ++number) {
          SCOPED_TRACE(concat(backend, " ", collective, " message ", number,
                              " of rank ", sender));
          Injection lost(sender, number, Fate::kDrop);
          run_with_fault(backend, collective, lost);
          EXPECT_TRUE(lost.hit);
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Faults one after the other, of which the second meets what the first left.
TEST(HierarchicalFaults, TwoInARowLoseNothing) {
  const Layout layout = {0, 0, 1, 1};
  // Of rank 1: one message of the first step, one once all have recovered.
  struct Faults {
    std::uint64_t first;
    std::uint64_t second;
    std::uint64_t since = 0;
    std::atomic<int> recovered{0};
    static Fate decide(void* context, std::size_t from, std::size_t,
                       std::uint64_t number) {
      auto& self = *static_cast<Faults*>(context);
      if (from != 1) return Fate::kDeliver;
      const bool lost = number == self.first ||
                        (self.recovered >= 4 && self.since++ == self.second);
      return lost ? Fate::kDrop : Fate::kDeliver;
    }
  };
  for (std::uint64_t first = 0; first < 3; ++first) {
    for (std::uint64_t second = 0; second < 3; ++second) {
      ManualClock clock;
      Faults faults{first, second};
      auto ranks =
          make_thread_ranks(layout.size(), {&clock, &Faults::decide, &faults});
      Books books;
      std::atomic<int> failures{0};
      run_ranks(ranks, [&](std::size_t r) {
        Scenario job;
        job.plan = "single";
        job.collective = "allgather";
        job.machine_of = layout;
        auto backend = make_backend("cpu/portable");
        DeviceGradients device(*backend);
        GradientSync sync(*ranks[r], *backend, kTensors, options_of(job));
        for (std::uint64_t step = 0; step < 4; ++step) {
          std::vector<float> g = flat(gradients_of(r, step));
          bool committed = true;
          try {
            device.run(sync, step, gradients_of(r, step));
          } catch (const CommError&) {
            ++failures;
            committed = sync.recover() == Recovered::kCommitted;
            ++faults.recovered;
          }
          for (std::size_t j = 0; j < g.size() && !committed; ++j) {
            if (is_dense(j)) g[j] = 0;
          }
          books.bring(g);
          if (committed && r == 0) books.receive(device.get(), layout.size());
          if (!committed) --step;
        }
        books.keep(sync.save().residual);
      });
      EXPECT_EQ(failures, 8) << first << " " << second;
      books.expect_balance(concat("faults ", first, " ", second));
      if (HasFailure()) return;
    }
  }
}

// A rank that did not hear that a step was committed has not begun the next,
// which the others roll back: afterwards they must agree on whose memories are
// to be added up.
TEST(HierarchicalFaults, ALostDecisionIsMadeUpForAfterTheNextFailure) {
  const std::size_t size = kInterleaved.size();
  const auto run = [&](std::uint64_t lost) {
    ManualClock clock;
    auto ranks = make_thread_ranks(size, {&clock, &drop_number, &lost});
    std::uint64_t sent = 0;
    std::atomic<int> failures{0};
    std::vector<std::vector<float>> last(size);
    Books books;
    run_ranks(ranks, [&](std::size_t r) {
      Scenario job;
      job.plan = "single";
      job.machine_of = kInterleaved;
      auto backend = make_backend("cpu/portable");
      DeviceGradients device(*backend);
      GradientSync sync(*ranks[r], *backend, kTensors, options_of(job));
      for (std::uint64_t step = 0; step < 4; ++step) {
        std::vector<float> g = flat(gradients_of(r, step));
        bool committed = true;
        try {
          const SyncReport report =
              device.run(sync, step, gradients_of(r, step));
          if (r == 0 && step == 0) sent = report.traffic.messages_sent;
        } catch (const CommError&) {
          ++failures;
          committed = sync.recover() == Recovered::kCommitted;
        }
        for (std::size_t j = 0; j < g.size() && !committed; ++j) {
          if (is_dense(j)) g[j] = 0;
        }
        books.bring(g);
        if (committed && r == 0) books.receive(device.get(), size);
        if (!committed) --step;
      }
      last[r] = device.get();
      books.keep(sync.save().residual);
    });
    for (std::size_t r = 1; r < size; ++r) EXPECT_EQ(last[r], last[0]);
    books.expect_balance(concat("without message ", lost));
    EXPECT_EQ(failures, lost == ~std::uint64_t{0} ? 0 : int(size));
    return sent;
  };
  const std::uint64_t sent = run(~std::uint64_t{0});
  // Rank 0's last messages of a step are the decision.
  for (std::uint64_t back = 1; back < size; ++back) run(sent - back);
}

// Flat, of machines, and back; with other buckets; dense in between.
TEST(HierarchicalReplan, LosesNothing) {
  for (const std::string backend_name : {"cpu/portable", "fake"}) {
    for (const std::string collective : {"auto", "oktopk", "balanced"}) {
      auto ranks = make_thread_ranks(4);
      Books books;
      std::vector<std::vector<std::vector<float>>> means(4);
      run_ranks(ranks, [&](std::size_t r) {
        Scenario flat_job;
        flat_job.collective = collective;
        Scenario job = flat_job;
        job.machine_of = {0, 1, 1, 1};
        Scenario other = job;
        other.plan = "single";
        Scenario dense = job;
        dense.sparsifier = "none";
        dense.collective = "dense-bf16";
        auto backend = make_backend(backend_name);
        DeviceGradients device(*backend);
        SyncOptions options = options_of(flat_job);
        options.machine_of = job.machine_of;
        options.network.reset();
        GradientSync sync(*ranks[r], *backend, kTensors, options);
        std::uint64_t step = 0;
        for (const Scenario& next :
             {flat_job, job, other, flat_job, job, dense, job, flat_job}) {
          sync.replan(plan_of(next));
          for (int i = 0; i < 2; ++i, ++step) {
            const Gradients g = gradients_of(r, step);
            EXPECT_TRUE(device.run(sync, step, g).committed);
            means[r].push_back(device.get());
            books.bring(flat(g));
            if (r == 0) books.receive(means[r].back(), 4);
          }
          if (next.machine_of.empty() || r < 2) continue;
          // Leaders have it all.
          EXPECT_EQ(sync.save().residual, std::vector<float>(total_size()));
        }
        books.keep(sync.save().residual);
      });
      for (std::size_t r = 1; r < 4; ++r) EXPECT_EQ(means[r], means[0]);
      books.expect_balance(concat(backend_name, " ", collective));
      if (HasFailure()) return;
    }
  }
}

// Momenta of a machine add up when it becomes one, as residuals do.
TEST(HierarchicalReplan, AddsUpMomenta) {
  auto ranks = make_thread_ranks(3);
  std::vector<GradientSync::State> before(3);
  std::vector<GradientSync::State> after(3);
  run_ranks(ranks, [&](std::size_t r) {
    Scenario job;
    job.feedback = "dgc:masking=false";
    auto backend = make_backend("cpu/portable");
    DeviceGradients device(*backend);
    SyncOptions options = options_of(job);
    options.machine_of = {0, 0, 1};
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    device.run(sync, 0, gradients_of(r, 0));
    before[r] = sync.save();
    job.machine_of = options.machine_of;
    sync.replan(plan_of(job));
    device.run(sync, 1, gradients_of(r, 1));
    after[r] = sync.save();
  });
  for (std::size_t j = 0; j < size_of(kTensors[0]); ++j) {
    double owed = 0;
    double have = 0;
    for (std::size_t r = 0; r < 3; ++r) {
      owed += 0.9 * double(before[r].momentum[j]) +
              double(gradients_of(r, 1)[0][j]);
      have += double(after[r].momentum[j]);
    }
    ASSERT_NEAR(have, owed, 1e-5);
    ASSERT_EQ(after[1].momentum[j], 0.0F);
  }
}

// Equal states and inputs give equal bits; on other machines, and from a flat
// run, nothing is lost and replicas stay equal.
struct Resumed {
  std::vector<std::vector<float>> last;
  std::vector<GradientSync::State> states;
};

Resumed train(const Scenario& job, std::uint64_t from, std::uint64_t to,
              const std::vector<GradientSync::State>& states, Books* books) {
  auto ranks = make_thread_ranks(job.ranks);
  Resumed out;
  out.last.resize(job.ranks);
  out.states.resize(job.ranks);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend(job.backend);
    DeviceGradients device(*backend);
    SyncOptions options = options_of(job);
    options.network.reset();
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    if (!states.empty()) sync.load(states[r]);
    for (std::uint64_t step = from; step < to; ++step) {
      const Gradients g = gradients_of(r, step);
      EXPECT_TRUE(device.run(sync, step, g).committed);
      out.last[r] = device.get();
      if (books == nullptr) continue;
      books->bring(flat(g));
      if (r == 0) books->receive(out.last[r], job.ranks);
    }
    out.states[r] = sync.save();
  });
  for (std::size_t r = 1; r < job.ranks; ++r) {
    EXPECT_EQ(out.last[r], out.last[0]);
  }
  return out;
}

TEST(HierarchicalResume, GoesOnFromASavedState) {
  for (const std::string collective : {"oktopk", "balanced", "allgather"}) {
    Scenario job;
    job.ranks = 4;
    job.machine_of = {0, 0, 1, 1};
    job.sparsifier = "sidco-p";
    job.collective = collective;
    const Resumed whole = train(job, 0, 6, {}, nullptr);
    const Resumed half = train(job, 0, 3, {}, nullptr);
    const Resumed rest = train(job, 3, 6, half.states, nullptr);
    EXPECT_EQ(rest.last, whole.last) << collective;
    for (std::size_t r = 0; r < 4; ++r) {
      EXPECT_EQ(rest.states[r].residual, whole.states[r].residual);
    }
  }
}

TEST(HierarchicalResume, LosesNothingOnOtherMachines) {
  const std::vector<Layout> layouts = {
      {}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 1, 1}, {0, 1, 2, 3}, {0, 0, 0, 0}};
  for (const std::string collective : {"oktopk", "auto", "dense:by=measured"}) {
    for (const Layout& before : layouts) {
      for (const Layout& after : layouts) {
        Scenario job;
        job.ranks = 4;
        job.collective = collective;
        job.machine_of = before;
        Books books;
        Resumed half = train(job, 0, 6, {}, &books);
        job.machine_of = after;
        if (before.empty() != after.empty()) {
          // The plan is another: who resumes starts these anew.
          for (GradientSync::State& s : half.states) {
            s.rules.clear();
            s.collectives.clear();
          }
        }
        const Resumed rest = train(job, 6, 9, half.states, &books);
        for (const auto& state : rest.states) books.keep(state.residual);
        books.expect_balance(collective);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::testing::machines_fault_test
