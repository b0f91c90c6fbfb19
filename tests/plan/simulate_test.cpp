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

// The host's own stages, and the copies there and back.
TEST(Simulate, AddsTheCopiesOfWhatTheHostSelects) {
  Job job = job_of({1000000});
  put_on_gpu(job, 10, 2e-9);
  Plan plan = make_plan("single", plan_input(job));
  const BucketCost here = simulate(plan, job).costs[0];
  plan.buckets[0].device = "cpu";
  const BucketCost there = simulate(plan, job).costs[0];
  const double copy = 1e-5 + 2e-3;
  EXPECT_NEAR(there.select, 10 * here.select + copy, 1e-7);
  EXPECT_NEAR(there.apply, 10 * here.apply + copy, 1e-7);
  EXPECT_EQ(there.bytes, here.bytes);
  // In backward's stream it is nothing that backward waits for.
  job.streams.select_beside = false;
  EXPECT_NEAR(simulate(plan, job).timeline.buckets[0].select.end,
              job.profile.forward + job.profile.backward() + there.select,
              1e-9);
  // On the host itself it means nothing.
  Job host = job_of({1000000});
  const double seconds = simulate(plan, host).iteration;
  plan.buckets[0].device.clear();
  EXPECT_EQ(simulate(plan, host).iteration, seconds);
}

// What is not known is not free.
TEST(Simulate, RefusesToPriceTheHostWithoutItsCosts) {
  for (const char* missing : {"copy", "select", "apply"}) {
    Job job = job_of(kSizes);
    put_on_gpu(job, 10, 1e-10);
    Plan plan = make_plan("single", plan_input(job));
    plan.buckets[0].device = "cpu";
    EXPECT_NO_THROW(simulate(plan, job));
    std::erase_if(job.profile.costs, [&](const StageCost& c) {
      return c.what == missing && (c.what == "copy" || c.device == "cpu");
    });
    EXPECT_EQ(refusal([&] { simulate(plan, job); }),
              "[plan] a bucket on the cpu needs costs of copy on cuda and of "
              "select and apply of topk on cpu, and the profile lacks some; "
              "sluice train --profile 20 on a GPU measures them");
  }
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

TEST(Simulate, PiecesCountTheirRows) {
  Job job = job_of({900, 21});
  job.profile.tensors[0].shape = {3, 300};
  Plan plan = make_plan("single", plan_input(job));  // {1, 0}
  plan.buckets.push_back(plan.buckets[0]);
  plan.buckets[0].piece = {0, 2};
  plan.buckets[1].piece = {1, 2};
  // One of three rows, and ten of as many rows as elements.
  EXPECT_EQ(bucket_elements(job.profile, plan.buckets[0]), 310);
  EXPECT_EQ(bucket_elements(job.profile, plan.buckets[1]), 611);
  const Simulation s = simulate(plan, job);
  const Way way(job, job.sparse);
  EXPECT_EQ(s.costs[0].select, way.of(310).select);
  EXPECT_EQ(s.costs[1].exchange, way.of(611).exchange);
  // More pieces than rows.
  plan.buckets.clear();
  double sum = 0;
  for (std::size_t i = 0; i < 50; ++i) {
    plan.buckets.push_back(job.sparse);
    plan.buckets.back().tensors = {1, 0};
    plan.buckets.back().piece = {i, 50};
    sum +=
        static_cast<double>(bucket_elements(job.profile, plan.buckets.back()));
  }
  EXPECT_EQ(sum, 921);
  const Simulation many = simulate(plan, job);
  EXPECT_EQ(many.costs[0].exchange, 0) << "there is nothing in it";
  EXPECT_GT(many.timeline.vote.end - many.timeline.vote.begin,
            s.timeline.vote.end - s.timeline.vote.begin)
      << "the vote counts every bucket";
}

TEST(Simulate, TurnsCostTheirMean) {
  Job job = job_of(kSizes);
  job.profile.costs.push_back(
      {"select", "dgc", "cpu", CostCurve({{1, 0.5}, {1e9, 0.5}})});
  job.profile.costs.push_back(
      {"encode", "dgc", "cpu", CostCurve({{1, 0.1}, {1e9, 0.1}})});
  const auto cost = [&](const char* sparsifier,
                        const std::vector<std::string>& turns) {
    job.sparse.sparsifier = sparsifier;
    job.sparse.turns = turns;
    return simulate(make_plan("single", plan_input(job)), job).costs[0];
  };
  const BucketCost topk = cost("topk", {});
  const BucketCost dgc = cost("dgc", {});
  const BucketCost both = cost("topk", {"dgc"});
  EXPECT_DOUBLE_EQ(both.select, (topk.select + dgc.select) / 2);
  EXPECT_DOUBLE_EQ(both.exchange, (topk.exchange + dgc.exchange) / 2);
  EXPECT_DOUBLE_EQ(both.apply, topk.apply);
  const BucketCost three = cost("topk", {"topk", "dgc"});
  EXPECT_DOUBLE_EQ(three.select, (2 * topk.select + dgc.select) / 3);
  // Neighbours that differ in their turns or values alone.
  Plan plan = make_plan("layerwise", plan_input(job));
  plan.buckets[0].turns.clear();
  EXPECT_LT(simulate(plan, job).costs[0].select, 0.1);
  EXPECT_GT(simulate(plan, job).costs[1].select, 0.1);
  plan.buckets[2].values = "bf16";
  plan.buckets[2].collective = plan.buckets[3].collective = "allgather";
  EXPECT_EQ(simulate(plan, job).costs[3].bytes,
            Way(job, plan.buckets[3]).of(10000).bytes);
}

// Machines of 4 ranks with a fast network inside.
TEST(Simulate, KnowsMachines) {
  Job job = job_of(kSizes);
  job.ranks = 16;
  job.sparse.collective = "allgather";
  Plan plan = make_plan("single", plan_input(job));
  const double flat = simulate(plan, job).iteration;
  plan.hierarchical = true;  // of one rank each: flat
  EXPECT_EQ(simulate(plan, job).iteration, flat);
  plan.hierarchical = false;
  job.network.per_machine = 4;
  job.network.inside = {1e-6, 1e-11};
  // They share a port: most of what is sent goes through it four times.
  EXPECT_GT(simulate(plan, job).iteration, flat);
  // The plan says whether they exchange as one, whatever the job asks for.
  const double shared = simulate(plan, job).iteration;
  job.hierarchical = true;
  EXPECT_EQ(simulate(plan, job).iteration, shared);
  plan.hierarchical = true;
  EXPECT_LT(simulate(plan, job).iteration, flat);
  // All on one machine.
  plan.hierarchical = false;
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
            "[plan] alpha and beta of the network must be seconds from 0 to "
            "1e9, got 5e-05 and -1");
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
