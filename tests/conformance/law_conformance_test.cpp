// Law 1 from end to end: every collective with every sparsifier, through
// select, exchange, vote and commit, for several steps.

#include <algorithm>
#include <bit>
#include <cmath>

#include "exchanger.h"
#include "ranks.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/collective/vote.h"
#include "sluice/comm/threads/threads.h"
#include "staged_link.h"
#include "support.h"

namespace sluice::testing {
namespace {

constexpr std::size_t kRows = 12;
constexpr std::size_t kCols = 16;
constexpr std::size_t kSize = kRows * kCols + 20;
constexpr std::uint64_t kSteps = 3;

// What a rank had and what came of it, in one step.
struct Record {
  std::vector<float> gradient;
  std::vector<float> before;
  std::vector<float> after;
  std::vector<float> mean;
  bool committed = false;
};

struct Scenario {
  std::string collective;
  std::string sparsifier;
  std::size_t ranks = 2;
  std::string backend = "cpu/portable";
  std::uint64_t fails_at = 99;  // step in which rank 0 votes no
};

// One rank's residuals and its side of an exchange.
struct Worker {
  Worker(const Scenario& job, LinkHub& hub, Communicator& comm)
      : rig(options_of(job)),
        link(make_link(job.backend, hub, comm, rig.backend())),
        exchanger(rig.backend(), link.get()) {}

  static Rig::Options options_of(const Scenario& job) {
    Rig::Options options;
    options.backend = job.backend;
    options.sparsifier = job.sparsifier;
    options.tensors = {{kRows, kCols}, {20}};
    return options;
  }

  void reduce(SparseAllreduce& collective, Communicator& comm,
              std::uint64_t step) {
    Feedback& feedback = rig.feedback();
    exchanger.reduce(collective, comm,
                     {feedback.staged(), feedback.forms(), feedback.budget(),
                      step, feedback.residuals()});
  }
  void commit() {
    ExchangeContext& context = exchanger.context();
    const Delivery& out = exchanger.delivery();
    rig.feedback().commit(context.stream(), context.on_device(out.returned),
                          out.refused);
    rig.backend().wait(rig.backend().record(context.stream()));
  }

  Rig rig;
  std::unique_ptr<DeviceLink> link;  // or null
  Exchanger exchanger;
};

// As a training step would: nothing changes before the vote.
std::vector<std::vector<Record>> run(const Scenario& job) {
  auto ranks = make_thread_ranks(job.ranks);
  LinkHub hub;
  std::vector<std::vector<Record>> records(kSteps,
                                           std::vector<Record>(job.ranks));
  run_ranks(ranks, [&](std::size_t r) {
    Worker worker(job, hub, *ranks[r]);
    Rig& rig = worker.rig;
    auto collective = make_collective(job.collective);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Record& record = records[step][r];
      record.before = rig.residual();
      record.gradient = gaussian(kSize, 100 * r + step + 1);
      const Sent sent = rig.step(record.gradient, 0.1, false);
      worker.reduce(*collective, *ranks[r], step);
      const bool yes = step != job.fails_at || r != 0;
      const VoteResult result =
          vote_on(*ranks[r], step, yes, sent.indices.size());
      record.committed = result.decision == Decision::kCommitted;
      record.mean.assign(kSize, 0.0F);
      if (record.committed) {
        record.mean = worker.exchanger.sum(1.0F / float(job.ranks));
        worker.commit();
        collective->commit(result.totals[0]);
      } else {
        rig.rollback();
        collective->roll_back();
      }
      record.after = rig.residual();
    }
  });
  return records;
}

void expect_law(const Scenario& job, const std::vector<Record>& ranks) {
  const auto size = double(job.ranks);
  for (std::size_t j = 0; j < kSize; ++j) {
    double owed = 0;
    double have = size * double(ranks[0].mean[j]);
    double scale = std::abs(have);
    for (const Record& r : ranks) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(r.mean[j]),
                std::bit_cast<std::uint32_t>(ranks[0].mean[j]));
      owed += double(r.before[j]) + double(r.gradient[j]);
      have += double(r.after[j]);
      scale += std::abs(double(r.before[j])) + std::abs(double(r.gradient[j]));
    }
    ASSERT_NEAR(have, owed, (size + 4) * std::ldexp(1.0, -23) * scale)
        << job.sparsifier << " index " << j;
  }
}

// One step in which a message is lost or damaged; then all start over, end
// their doubt and tell what came of it.
std::vector<Record> run_with_fault(
    const Scenario& job, Injection& injection,
    std::vector<std::uint64_t>* messages = nullptr) {
  ManualClock clock;
  // Of a link it is what ranks give to that.
  const bool linked = is_linked(job.backend);
  const ThreadRankOptions faulty = injection.options(clock);
  auto ranks = make_thread_ranks(
      job.ranks, linked ? ThreadRankOptions{&clock, nullptr, nullptr} : faulty);
  LinkHub hub(linked ? faulty.fault : nullptr, &injection);
  std::vector<Record> records(job.ranks);
  run_ranks(ranks, [&](std::size_t r) {
    Communicator& comm = *ranks[r];
    Worker worker(job, hub, comm);
    Rig& rig = worker.rig;
    Record& record = records[r];
    record.before = rig.residual();
    record.gradient = gaussian(kSize, r + 1);
    record.mean.assign(kSize, 0.0F);
    rig.step(record.gradient, 0.1, false);
    const auto collective = make_collective(job.collective);
    Standing standing;
    standing.open = {0, Ballot::kNone};
    try {
      worker.reduce(*collective, comm, 0);
      vote_on(comm, 0, true, standing);
    } catch (const CommError&) {
      if (worker.link != nullptr) worker.link->abort();
    }
    if (messages != nullptr) (*messages)[r] = comm.traffic().messages_sent;
    comm.rebuild();
    settle(comm, standing);
    record.committed = standing.last == Decision::kCommitted;
    if (record.committed) {
      record.mean = worker.exchanger.sum(1.0F / float(job.ranks));
      worker.commit();
    } else {
      rig.rollback();
    }
    record.after = rig.residual();
  });
  return records;
}

// Messages that a rank sends in the exchange and the vote of a good step.
std::uint64_t messages_of(const Scenario& job, std::size_t rank) {
  Injection none(job.ranks, 0, Fate::kDeliver);
  std::vector<std::uint64_t> counts(job.ranks);
  run_with_fault(job, none, &counts);
  return counts[rank];
}

std::vector<std::string> sparsifier_names() {
  std::vector<std::string> names;
  for (const SparsifierEntry& e : sparsifiers()) names.emplace_back(e.name);
  return names;
}

std::vector<std::string> names_of_collectives() {
  std::vector<std::string> names;
  for (const CollectiveEntry& e : collectives()) names.emplace_back(e.name);
  return names;
}

class WholeLaw : public ::testing::TestWithParam<
                     std::tuple<std::string, std::size_t, std::string>> {};

TEST_P(WholeLaw, NothingIsLostWithAnySparsifier) {
  const auto& [collective, size, backend] = GetParam();
  for (const std::string& sparsifier : sparsifier_names()) {
    const Scenario job = {collective, sparsifier, size, backend};
    for (const auto& step : run(job)) {
      ASSERT_TRUE(step[0].committed);
      expect_law(job, step);
    }
  }
}

// A step that one rank votes down leaves every residual at before + gradient,
// and the steps after it go on as if it had not been tried.
TEST_P(WholeLaw, AFailedStepLosesNothing) {
  const auto& [collective, size, backend] = GetParam();
  const Scenario job = {collective, "topk", size, backend, 1};
  const auto steps = run(job);
  EXPECT_FALSE(steps[1][0].committed);
  for (const auto& step : steps) expect_law(job, step);
}

// Law 4, for every message of the exchange and of the vote: all ranks commit
// or none does, and either way nothing is lost and nobody hangs.
TEST_P(WholeLaw, AnyLostOrDamagedMessageLosesNothing) {
  const auto& [collective, size, backend] = GetParam();
  if (size == 1 || size > 5) GTEST_SKIP() << "2 to 5 ranks show it";
  const Scenario job = {collective, "topk", size, backend};
  for (const Fate fate : {Fate::kDrop, Fate::kCorrupt}) {
    for (std::size_t from = 0; from < size; ++from) {
      const std::uint64_t messages = messages_of(job, from);
      for (std::uint64_t number = 0; number < messages; ++number) {
        Injection injection(from, number, fate);
        SCOPED_TRACE(std::to_string(from) + " " + std::to_string(number));
        const std::vector<Record> records = run_with_fault(job, injection);
        if (!injection.hit && is_linked(backend)) break;
        ASSERT_TRUE(injection.hit);
        for (const Record& r : records) {
          ASSERT_EQ(r.committed, records[0].committed);
        }
        expect_law(job, records);
      }
    }
  }
}

std::string case_name(const ::testing::TestParamInfo<WholeLaw::ParamType>& c) {
  return safe_name(std::get<0>(c.param) + "_" +
                   std::to_string(std::get<1>(c.param)) + "_" +
                   std::get<2>(c.param));
}

INSTANTIATE_TEST_SUITE_P(
    Registry, WholeLaw,
    ::testing::Combine(::testing::ValuesIn(names_of_collectives()),
                       ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8),
                       ::testing::ValuesIn(device_names())),
    case_name);
INSTANTIATE_TEST_SUITE_P(
    Linked, WholeLaw,
    ::testing::Combine(::testing::Values("allgather", "balanced"),
                       ::testing::Values(2, 3, 4),
                       ::testing::ValuesIn(linked_names())),
    case_name);

}  // namespace
}  // namespace sluice::testing
