// Planners that choose tensor by tensor, and those around others.

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "plan/job_support.h"
#include "refusal.h"
#include "sluice/plan/planner.h"
#include "sluice/plan/simulate.h"
#include "support.h"

namespace sluice::testing {
namespace {

TEST(Hipress, CompressesTensorsThatGainAlone) {
  // Selecting takes a millisecond at least.
  Job job = job_of({1000, 5000000, 2000, 3000});
  job.profile.costs[0].curve = CostCurve({{1, 1e-3}, {1e9, 1}});
  const Plan plan = make_planner("hipress:pieces=1")->make(job);
  ASSERT_EQ(plan.buckets.size(), 2);
  EXPECT_EQ(plan.buckets[0].tensors, (std::vector<std::size_t>{1}));
  EXPECT_EQ(plan.buckets[0].sparsifier, "topk");
  EXPECT_EQ(plan.buckets[1].tensors, (std::vector<std::size_t>{3, 2, 0}));
  EXPECT_EQ(plan.buckets[1].sparsifier, "none");
  EXPECT_EQ(make_planner("hipress:batch=1,pieces=1")->make(job).buckets.size(),
            4);
}

// Pieces of the tensors, by number, and whether they are dense.
std::vector<std::size_t> pieces_of(const Plan& plan, std::size_t tensor) {
  std::vector<std::size_t> counts;
  for (const BucketPlan& b : plan.buckets) {
    if (b.tensors[0] == tensor) counts.push_back(b.piece.count);
  }
  return counts;
}

// Selecting takes as long as sending, and a message costs little: while one
// piece is sent the next one is selected.
TEST(Hipress, CutsWhatPipelines) {
  Job job = job_of({1000, 8000000});
  job.ranks = 8;
  job.sparse.collective = "allgather";
  job.network.between = {1e-5, 1e-9};
  job.profile.costs[0].curve = CostCurve({{1, 1e-5}, {8e6, 8e-3}});
  const auto seconds_in = [&](std::size_t most) {
    const auto planner = make_planner(concat("hipress:pieces=", most));
    const Simulation s = simulate(planner->make(job), job);
    return s.iteration - s.compute;
  };
  const std::size_t count = pieces_of(make_planner("hipress")->make(job), 1)[0];
  EXPECT_GT(count, 1U);
  EXPECT_LE(count, 8U) << "as many as workers at most";
  EXPECT_EQ(pieces_of(make_planner("hipress")->make(job), 1).size(), count);
  EXPECT_LT(seconds_in(16), 0.8 * seconds_in(1));
  EXPECT_LE(seconds_in(16), seconds_in(2) * kRounding);
  // No more than rows.
  job.profile.tensors[1].shape = {3, 8000000 / 3};
  job.profile.tensors[1].elements = 8000000 / 3 * 3;
  EXPECT_EQ(pieces_of(make_planner("hipress")->make(job), 1),
            (std::vector<std::size_t>{3, 3, 3}));
  // A message that costs as much as a piece saves nothing.
  job.network.between.alpha = 1e-2;
  EXPECT_EQ(pieces_of(make_planner("hipress")->make(job), 1),
            (std::vector<std::size_t>{1}));
}

// What is packed while another piece is summed; small ones share a batch.
TEST(Hipress, CutsDenseTensorsLargerThanABatch) {
  Job job = job_of({500000, 8000000});
  job.sparse.sparsifier = "none";
  job.sparse.collective = "dense";
  job.network.between = {1e-5, 1e-10};
  job.profile.costs.push_back(
      {"select", "none", "cpu", CostCurve({{1, 1e-6}, {8e6, 2e-2}})});
  const Plan plan = make_planner("hipress")->make(job);
  EXPECT_EQ(pieces_of(plan, 1), (std::vector<std::size_t>(4, 4)));
  EXPECT_EQ(pieces_of(plan, 0), (std::vector<std::size_t>{1}));
  EXPECT_LT(seconds("hipress", job), seconds("hipress:pieces=1", job));
  for (const BucketPlan& b : plan.buckets) EXPECT_TRUE(b.dense());
}

// Each alone: a tensor in its best pieces is through before the whole of it.
TEST(Hipress, IsNeverLongerForItsPiecesWithOneTensor) {
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    Job job = random_job(seed);
    job.profile.tensors.resize(1);
    job.dense.clear();
    job.profile.tensors[0].backward = 0;
    // Without the vote, which counts every piece.
    const auto until_vote = [&](const char* planner) {
      return simulate(make_planner(planner)->make(job), job)
          .timeline.vote.begin;
    };
    EXPECT_LE(until_vote("hipress"), until_vote("hipress:pieces=1") * kRounding)
        << seed;
  }
}

TEST(Interleaved, GivesSparseBucketsASecondRule) {
  Job job = job_of({1000, 5000000, 2000, 3000});
  job.dense = dense_tensors(job.profile, 0, 2500);
  job.sparse.sparsifier = "adtopk";
  for (const char* of :
       {"layerwise", "single", "size=2M", "omgs-exact", "lags",
        "adtopk-partial", "hipress", "espresso", "hybrid", "auto"}) {
    const Plan plan = make_planner(concat("interleaved:of=", of))->make(job);
    Job both = job;
    both.sparse.turns = {"topk"};
    EXPECT_EQ(plan.buckets, make_planner(of)->make(both).buckets) << of;
    EXPECT_EQ(plan.name, "interleaved");
    int sparse = 0;
    for (const BucketPlan& b : plan.buckets) {
      EXPECT_EQ(b.turns.size(), b.dense() ? 0U : 1U) << of;
      sparse += b.dense() ? 0 : 1;
    }
    EXPECT_GT(sparse, 0) << of;
  }
  const Plan three =
      make_planner("interleaved:of=interleaved:with=dgc")->make(job);
  EXPECT_EQ(three.buckets[0].turns, (std::vector<std::string>{"topk", "dgc"}));
  // Not with itself.
  EXPECT_TRUE(make_planner("interleaved:with=adtopk")
                  ->make(job)
                  .buckets[0]
                  .turns.empty());
  EXPECT_EQ(refusal([&] {
              make_planner("interleaved:with=none")->make(job);
            }).substr(0, 51),
            "[plan] turns must be of sparsifiers that select, bu");
}

TEST(Interleaved, StaysOutOfAuto) {
  Job job = job_of({1000000, 5000000});
  job.sparse.sparsifier = "adtopk";
  for (const char* method : {"adtopk", "topk"}) {
    job.profile.costs.push_back(
        {"select", method, "cpu",
         CostCurve({{1, 0}, {1e7, method[0] == 'a' ? 0.1 : 1e-3}})});
  }
  EXPECT_LT(seconds("interleaved:of=auto", job), seconds("auto", job));
  for (const BucketPlan& b : make_planner("auto")->make(job).buckets) {
    EXPECT_TRUE(b.turns.empty());
  }
}

TEST(Hybrid, SendsDenseTensorsWithTheirGroup) {
  Job job = job_of({1000000, 500, 1000000, 700, 3000000, 900});
  job.dense = dense_tensors(job.profile, 0, 1000);
  const Plan plan = make_planner("hybrid:of=size=9M")->make(job);
  const auto tensors = [](const Plan& p) {
    std::vector<std::vector<std::size_t>> all;
    for (const BucketPlan& b : p.buckets) {
      all.push_back(b.tensors);
    }
    return all;
  };
  using Tensors = std::vector<std::vector<std::size_t>>;
  // {5} | {4} | {3, 2, 1, 0}: dense ones first.
  EXPECT_EQ(tensors(plan), (Tensors{{5}, {4}, {3, 1}, {2, 0}}));
  for (const BucketPlan& b : plan.buckets) {
    EXPECT_EQ(b.dense(), job.must_be_dense(b.tensors[0]));
    EXPECT_EQ(b.collective, b.dense() ? "dense" : "auto");
  }
  const Plan below = make_planner("hybrid:of=single,below=1000000")->make(job);
  EXPECT_EQ(tensors(below), (Tensors{{5, 3, 2, 1, 0}, {4}}));
  EXPECT_TRUE(below.buckets[0].dense());
  // Pieces stay pieces, and what was dense stays dense.
  const Plan pieces = make_planner("hybrid:of=hipress")->make(job);
  EXPECT_EQ(check_refusal(pieces, job), "nothing");
  Job all_dense = job;
  all_dense.sparse.sparsifier = "none";
  EXPECT_EQ(make_planner("hybrid")->make(all_dense).buckets,
            make_planner("size=25M")->make(all_dense).buckets);
}

// Nothing is at the end that could have travelled beside backward.
TEST(Hybrid, HidesDenseTensorsBesideBackward) {
  Job job = job_of({1000, 2000000, 900000});
  job.dense = {false, false, true};
  job.profile.tensors[1].backward = 1;
  EXPECT_LT(seconds("hybrid:of=layerwise", job), seconds("layerwise", job));
}

TEST(Planners, SayWhichNeedCosts) {
  Job job = job_of({1000, 5000000, 2000, 300000});
  job.dense = dense_tensors(job.profile, 0, 2500);
  Job bare = job;
  bare.profile.costs.clear();
  bare.profile.forward = 0;
  for (TensorProfile& t : bare.profile.tensors) t.backward = 0;
  bare.network = {};
  for (const char* name :
       {"layerwise", "single", "size", "size=2M", "hybrid", "interleaved",
        "hybrid:of=single", "interleaved:of=hybrid,with=dgc"}) {
    const auto planner = make_planner(name);
    EXPECT_FALSE(planner->needs_costs()) << name;
    EXPECT_EQ(planner->make(bare), planner->make(job)) << name;
  }
  for (const char* name : {"mgwfbp", "auto", "hipress", "hybrid:of=omgs",
                           "interleaved:of=espresso"}) {
    EXPECT_TRUE(make_planner(name)->needs_costs()) << name;
  }
}

TEST(HierarchicalPlanner, AsksAnotherPlannerForMachines) {
  Job job = job_of({4000, 5000000, 2000, 3000000});
  job.ranks = 16;
  job.network.per_machine = 4;
  job.network.inside = {1e-6, 1e-11};
  for (const std::string of :
       {"single", "layerwise", "size=1M", "omgs-exact", "espresso", "auto"}) {
    const Plan plan = make_planner("hierarchical:of=" + of)->make(job);
    EXPECT_EQ(plan.name, "hierarchical");
    EXPECT_TRUE(plan.hierarchical);
    Job together = job;
    together.hierarchical = true;
    Plan theirs = make_planner(of)->make(together);
    EXPECT_EQ(theirs.name, make_planner(of)->name());
    theirs.name = plan.name;
    EXPECT_EQ(theirs, plan);
  }
  EXPECT_EQ(make_planner("hierarchical")->make(job),
            make_planner("hierarchical:of=auto")->make(job));
  EXPECT_FALSE(make_planner("single")->make(job).hierarchical);
  EXPECT_EQ(refusal([] { make_planner("hierarchical:of=hierarchical"); }),
            "[plan] hierarchical must be of another planner, got "
            "of=hierarchical");
  EXPECT_NE(refusal([] {
              make_planner("hierarchical:of=nope");
            }).find("no planner 'nope'"),
            std::string::npos);
}

// Where ranks of a machine reach each other fast, they do it together; where
// they do not, nobody waits for them.
TEST(AutoPlanner, ExchangesMachinesWhereThatIsFaster) {
  Job job = job_of({4000, 5000000, 2000, 3000000});
  job.ranks = 16;
  job.network.per_machine = 4;
  for (const double beta : {1e-11, 1e-9, 1e-7}) {
    job.network.inside = {1e-6, beta};
    const Plan plan = make_planner("auto")->make(job);
    EXPECT_EQ(plan.hierarchical, beta < 1e-8) << beta;
    const double least = simulate(plan, job).iteration;
    EXPECT_LE(least, seconds("hierarchical", job) * kRounding);
    Job flat = job;
    flat.network.per_machine = 1;
    flat.network.inside = {};
    EXPECT_FALSE(make_planner("auto")->make(flat).hierarchical);
    job.ranks = 4;  // one machine
    EXPECT_FALSE(make_planner("auto")->make(job).hierarchical);
    job.ranks = 16;
  }
}

TEST(Espresso, LeavesWhatIsHiddenAlone) {
  // The first exchange is long over when the next gradient is made.
  Job job = job_of({8000000, 4000000, 100000});
  job.profile.tensors[1].backward = 10;
  const Plan plan = make_planner("espresso")->make(job);
  ASSERT_EQ(plan.buckets.size(), 3);
  EXPECT_EQ(plan.buckets[0].collective, "dense");
  EXPECT_EQ(plan.buckets[2].sparsifier, "topk");
  EXPECT_NE(plan.buckets[2].collective, "auto");
}

TEST(Espresso, IsNeverLongerThanDenseByLayers) {
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    const Job job = random_job(seed);
    Job dense = job;
    dense.sparse.sparsifier = "none";
    if (!job.dense.empty()) continue;  // its small ones travel together
    EXPECT_LE(seconds("espresso", job), seconds("layerwise", dense) * kRounding)
        << seed;
  }
}

bool is_offloaded(const BucketPlan& b) { return b.device == "cpu"; }

std::ptrdiff_t offloaded(const Plan& plan) {
  return std::count_if(plan.buckets.begin(), plan.buckets.end(), is_offloaded);
}

// Of the same job, without what offloading needs.
Job without_copies(Job job) {
  std::erase_if(job.profile.costs,
                [](const StageCost& c) { return c.what == "copy"; });
  return job;
}

// Where the GPU selects in backward's stream and is no faster than the host,
// the host selects; not where it is and does so beside, nor where the profile
// does not say.
TEST(Espresso, OffloadsWhatTheDeviceIsSlowAt) {
  Job slow = job_of({2000000, 2000000, 2000000, 2000000, 3000000});
  slow.streams.select_beside = false;
  put_on_gpu(slow, 0.25, 1e-11);
  const Plan plan = make_planner("espresso")->make(slow);
  EXPECT_GT(offloaded(plan), 0);
  for (const BucketPlan& b : plan.buckets) {
    EXPECT_FALSE(b.dense() && is_offloaded(b));
  }
  EXPECT_LT(seconds("espresso", slow),
            seconds("espresso", without_copies(slow)));
  EXPECT_LE(seconds("auto", slow), seconds("espresso", slow) * kRounding);
  EXPECT_EQ(offloaded(make_planner("espresso")->make(without_copies(slow))), 0);

  Job fast = job_of({2000000, 2000000, 2000000, 2000000, 3000000});
  put_on_gpu(fast, 100, 1e-10);
  EXPECT_EQ(offloaded(make_planner("espresso")->make(fast)), 0);
  // A slow way to the host.
  Job far = job_of({2000000, 2000000, 2000000, 2000000, 3000000});
  far.streams.select_beside = false;
  put_on_gpu(far, 0.25, 1e-6);
  EXPECT_EQ(offloaded(make_planner("espresso")->make(far)), 0);
}

// Of tensors that are alike, those farthest from the output.
TEST(Espresso, OffloadsTheFarthestFromTheOutput) {
  int some = 0;
  for (const double faster : {0.2, 0.5, 1.0, 1.5, 3.0}) {
    Job job = job_of(std::vector<std::size_t>(8, 2000000));
    for (std::size_t t = 0; t < 8; ++t) {
      job.profile.tensors[t].backward = t < 4 ? 2e-3 : 1e-4;
    }
    job.network.between = {5e-6, 2e-9};
    job.streams.select_beside = false;
    put_on_gpu(job, faster, 1e-11);
    const Plan plan = make_planner("espresso")->make(job);
    std::map<std::string, bool> seen;  // one on the host, by way
    for (const BucketPlan& b : plan.buckets) {
      if (b.dense()) continue;
      bool& host = seen[b.collective];
      EXPECT_TRUE(!host || is_offloaded(b)) << faster;
      host = host || is_offloaded(b);
    }
    const auto count = offloaded(plan);
    some += count > 0 && count < 8 ? 1 : 0;
  }
  EXPECT_GT(some, 0);
}

TEST(Espresso, IsNeverLongerForOffloading) {
  int chosen = 0;
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    Job job = random_job(seed);
    if (job.device == "cpu") put_on_gpu(job, 0.5, 1e-11);
    chosen += offloaded(make_planner("espresso")->make(job)) > 0 ? 1 : 0;
    EXPECT_LE(seconds("espresso", job),
              seconds("espresso", without_copies(job)) * kRounding)
        << seed;
  }
  EXPECT_GT(chosen, 5);
}

// Too many combinations to try them all.
TEST(Espresso, OffloadsOfManyTensorsToo) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 60; ++i) sizes.push_back(200000 + 1000 * i);
  Job job = job_of(sizes);
  job.streams.select_beside = false;
  put_on_gpu(job, 0.25, 1e-11);
  EXPECT_GT(offloaded(make_planner("espresso")->make(job)), 1);
  EXPECT_LT(seconds("espresso", job), seconds("espresso", without_copies(job)));
}

}  // namespace
}  // namespace sluice::testing
