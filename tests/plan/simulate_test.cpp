#include "sluice/plan/simulate.h"

#include <functional>

#include "plan/job_support.h"
#include "refusal.h"
#include "support.h"

namespace sluice::testing {
namespace {

const std::vector<std::size_t> kSizes = {10000, 1000000, 500, 3000000};

TEST(Simulate, AddsUp) {
  const Job job = job_of(kSizes);
  for (const char* name : {"layerwise", "single", "size=4M"}) {
    const Simulation s = simulate(make_plan(name, plan_input(job)), job);
    EXPECT_NEAR(s.iteration, s.compute + s.exposed_exchange + s.exposed_work,
                1e-12);
    EXPECT_LE(s.free_compression, s.iteration);
    EXPECT_GT(s.free_compression, s.compute);
    double bytes = 0;
    for (const BucketCost& c : s.costs) bytes += c.bytes;
    EXPECT_EQ(s.bytes, bytes);
    EXPECT_EQ(iteration_seconds(make_plan(name, plan_input(job)), job),
              s.iteration);
  }
}

TEST(Simulate, OneWorkerWaitsForNobody) {
  Job job = job_of(kSizes);
  job.ranks = 1;
  const Simulation s = simulate(make_plan("layerwise", plan_input(job)), job);
  EXPECT_EQ(s.exposed_exchange, 0);
  EXPECT_EQ(s.bytes, 0);
}

TEST(Simulate, MoreWorkersOfAnyNumberTakeLonger) {
  Job job = job_of(kSizes);
  job.sparse.collective = "allgather";
  double last = 0;
  for (const double ranks : {1., 2., 3., 7., 64., 1000., 65536.}) {
    job.ranks = ranks;
    const double now =
        simulate(make_plan("single", plan_input(job)), job).iteration;
    EXPECT_GT(now, last);
    last = now;
  }
}

TEST(Simulate, TakesTheCostOfTheMethodAndTheDevice) {
  Job job = job_of(kSizes);
  job.profile.costs.push_back(
      {"select", "dgc", "cpu", CostCurve({{1, 0.5}, {1e9, 0.5}})});
  job.profile.costs.push_back(
      {"select", "*", "cuda", CostCurve({{1, 0.25}, {1e9, 0.25}})});
  const auto selected = [&] {
    return simulate(make_plan("single", plan_input(job)), job).costs[0].select;
  };
  EXPECT_LT(selected(), 0.1);
  job.sparse.sparsifier = "dgc:upper=1.5";
  EXPECT_EQ(selected(), 0.5);
  job.device = "cuda";
  EXPECT_EQ(selected(), 0.25);
}

TEST(Simulate, DenseBucketsArePackedAndAppliedAtTheEnd) {
  Job job = job_of(kSizes);
  job.sparse.sparsifier = "none";
  const Plan plan = make_plan("layerwise", plan_input(job));
  // Selection costs of all methods are not theirs.
  EXPECT_EQ(simulate(plan, job).costs[0].select, 0);
  job.profile.costs.push_back(
      {"select", "none", "cpu", CostCurve({{1, 0.25}, {2, 0.25}})});
  const Simulation s = simulate(plan, job);
  EXPECT_EQ(s.costs[0].select, 0.25);
  const Timeline& t = s.timeline;
  EXPECT_GT(t.vote.end, t.vote.begin);
  EXPECT_EQ(t.vote.begin, t.buckets.back().exchange.end);
  EXPECT_EQ(t.buckets[0].apply.begin, t.vote.end);
}

TEST(Simulate, HalfOfTheValueBytesSaveBytes) {
  Job job = job_of(kSizes);
  job.sparse.collective = "allgather";
  const auto bytes = [&] {
    return simulate(make_plan("single", plan_input(job)), job).bytes;
  };
  const double fp32 = bytes();
  job.sparse.values = "bf16";
  // 4 of about 5 bytes per entry are the value.
  EXPECT_NEAR(bytes() / fp32, 0.6, 0.02);
}

TEST(Simulate, DensitiesOfBucketsCount) {
  const Job job = job_of(kSizes);
  Plan plan = make_plan("single", plan_input(job));
  const double usual = simulate(plan, job).bytes;
  plan.buckets[0].density = 0.1;
  EXPECT_GT(simulate(plan, job).bytes, 5 * usual);
}

// Machines of 4 ranks with a fast network inside.
TEST(Simulate, KnowsMachines) {
  Job job = job_of(kSizes);
  job.ranks = 16;
  job.sparse.collective = "allgather";
  const Plan plan = make_plan("single", plan_input(job));
  const double flat = simulate(plan, job).iteration;
  job.network.per_machine = 4;
  job.network.inside = {1e-6, 1e-11};
  // They share a port: most of what is sent goes through it four times.
  EXPECT_GT(simulate(plan, job).iteration, flat);
  job.hierarchical = true;
  EXPECT_LT(simulate(plan, job).iteration, flat);
  // All on one machine.
  job.hierarchical = false;
  job.ranks = 4;
  EXPECT_LT(simulate(plan, job).exposed_exchange, 5e-3);
}

TEST(Simulate, RefusesJobsThatMakeNoSense) {
  const auto why = [](const std::function<void(Job&)>& change) {
    Job job = job_of(kSizes);
    const Plan plan = make_plan("single", plan_input(job));
    change(job);
    return refusal([&] { simulate(plan, job); });
  };
  EXPECT_EQ(why([](Job&) {}), "nothing");
  EXPECT_EQ(why([](Job& j) { j.ranks = 0; }),
            "[plan] the number of workers must be a whole number from 1 to "
            "2^31, got 0");
  EXPECT_EQ(why([](Job& j) { j.density = 0; }),
            "[plan] density must be above 0 and at most 1, got 0");
  EXPECT_EQ(why([](Job& j) { j.network.between.beta = -1; }),
            "[plan] alpha and beta must be 0 or more, got 5e-05 and -1");
  EXPECT_EQ(why([](Job& j) { j.dense = {true}; }),
            "[plan] must know of each of 4 tensors whether it stays dense, "
            "knows of 1");
  EXPECT_EQ(why([](Job& j) { j.dense_collective = "allgather"; }),
            "[plan] dense tensors need a collective that sums vectors, such as "
            "dense or dense-bf16, got 'allgather'");
  EXPECT_EQ(why([](Job& j) {
              j.sparse.collective = "dense";
              j.sparse.values = "bf16";
            }),
            "[plan] collective 'dense' would send values in full width all the "
            "same, got values 'bf16'; use values fp32, or a collective that "
            "saves by it, as balanced");
  EXPECT_NE(why([](Job& j) {
              j.sparse.collective = "nope";
            }).find("no cost 'nope'; known: dense"),
            std::string::npos);
  EXPECT_NE(why([](Job& j) {
              j.profile.tensors.pop_back();
            }).find("[plan] tensors must be of the model"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::testing
