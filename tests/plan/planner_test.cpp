#include "sluice/plan/planner.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "plan/job_support.h"
#include "refusal.h"
#include "sluice/plan/simulate.h"
#include "support.h"

namespace sluice::testing {
namespace {

TEST(Planners, MakePlansForAnyJob) {
  for (const PlannerEntry& entry : planners()) {
    for (unsigned seed = 0; seed < kJobs; ++seed) {
      const Job job = random_job(seed);
      const auto names = job.profile.names();
      const Plan plan = make_planner(entry.name)->make(job);
      EXPECT_EQ(plan.name, entry.name);
      EXPECT_EQ(plan_from_json(to_json(plan, names), names), plan);
      EXPECT_EQ(make_planner(entry.name)->make(job), plan) << "the same again";
      for (const BucketPlan& b : plan.buckets) {
        EXPECT_TRUE(std::is_sorted(b.tensors.rbegin(), b.tensors.rend()));
        for (const std::size_t t : b.tensors) {
          EXPECT_TRUE(b.sparsifier == "none" || !job.must_be_dense(t));
        }
      }
    }
  }
}

TEST(Planners, AreDenseWhereNothingMayBeSparse) {
  Job job = random_job(3);
  job.sparse.sparsifier = "none";
  for (const PlannerEntry& entry : planners()) {
    for (const BucketPlan& b : make_planner(entry.name)->make(job).buckets) {
      EXPECT_EQ(b.sparsifier, "none") << entry.name;
      EXPECT_EQ(b.density, std::nullopt) << entry.name;
    }
  }
  EXPECT_LE(seconds("omgs-exact", job), seconds("layerwise", job) * kRounding);
  EXPECT_LE(seconds("omgs-exact", job), seconds("mgwfbp", job) * kRounding);
}

// Or a sync would refuse the plan.
TEST(Planners, TakeCollectivesThatCarryTheValues) {
  for (const char* values : {"bf16", "fp16"}) {
    for (unsigned seed = 0; seed < kJobs; ++seed) {
      Job job = random_job(seed);
      job.sparse.values = values;
      for (const char* name : {"espresso", "auto"}) {
        for (const BucketPlan& b : make_planner(name)->make(job).buckets) {
          if (b.sparsifier == "none") continue;
          EXPECT_NE(b.collective, "dense") << name << " " << seed;
        }
      }
    }
  }
}

TEST(Planners, AreFoundByName) {
  std::set<std::string_view> names;
  for (const PlannerEntry& entry : planners()) names.insert(entry.name);
  EXPECT_EQ(names.size(), planners().size());
  EXPECT_EQ(refusal([] { make_planner("omg"); }).substr(0, 43),
            "[make_planner] no planner 'omg'; known: lay");
  EXPECT_EQ(refusal([] { make_planner("size=x"); }),
            "[make_plan] expected size=BYTES as in size=64k or size=25M, got "
            "'size=x'");
  const Job job = random_job(1);
  EXPECT_EQ(make_planner("size=2M")->make(job),
            make_planner("size:bytes=2000000")->make(job));
}

TEST(OmgsExact, IsNeverLongerThanOtherMerges) {
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    Job job = random_job(seed);
    job.streams.apply_beside = false;
    const double exact = seconds("omgs-exact", job);
    for (const char* name : {"layerwise", "single", "size=4M", "omgs"}) {
      EXPECT_LE(exact, seconds(name, job) * kRounding) << name << " " << seed;
    }
  }
}

// What applying beside the link, ranks of a machine and a busy core cost is not
// in the model of merges.
TEST(OmgsExact, IsNeverLongerWhereOnlyTheWholeStepShowsCosts) {
  for (unsigned seed = 0; seed < 3 * kJobs; ++seed) {
    Job job = random_job(seed);
    job.streams.apply_beside = seed % 3 == 0;
    job.streams.one_core = seed % 3 == 1;
    if (seed % 3 == 2) {
      job.network.inside = {1e-6, 1e-11};
      job.network.per_machine = 4;
      job.hierarchical = true;
    }
    const double exact = seconds("omgs-exact", job);
    for (const char* name : {"layerwise", "single", "omgs"}) {
      EXPECT_LE(exact, seconds(name, job) * kRounding) << name << " " << seed;
    }
  }
}

// Whatever grows with the square of the tensors takes minutes here.
TEST(Planners, TakeVeryManyTensors) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 20000; ++i) sizes.push_back(64 << (i % 12));
  Job job = job_of(sizes);
  put_on_gpu(job, 0.1, 1e-10);
  Job dense = job;
  dense.sparse.sparsifier = "none";
  dense.sparse.collective = "dense";
  const double layers = seconds("layerwise", dense);
  for (const char* name : {"espresso", "omgs", "mgwfbp", "omgs-exact"}) {
    const Plan plan = make_planner(name)->make(job);
    EXPECT_LE(simulate(plan, job).iteration, layers) << name;
    EXPECT_EQ(
        plan_from_json(to_json(plan, job.profile.names()), job.profile.names()),
        plan)
        << name;
  }
}

// Sums of these times would not be finite.
TEST(Planners, RefuseTimesThatAreTooLong) {
  const auto why = [](const std::function<void(Job&)>& change) {
    Job job = job_of({1000, 2000});
    change(job);
    return refusal([&] { make_planner("auto")->make(job); });
  };
  EXPECT_EQ(why([](Job& j) { j.profile.tensors[1].backward = 1e308; }),
            "[profile] the seconds of tensor 't1' must be from 0 to 1e9, got "
            "1e+308 with a spread of 0");
  EXPECT_EQ(why([](Job& j) { j.profile.forward = 1e10; }),
            "[profile] forward and update must be seconds from 0 to 1e9, got "
            "1e+10 and 0");
  EXPECT_EQ(why([](Job& j) { j.network.between.alpha = 1e300; }),
            "[plan] alpha and beta of the network must be seconds from 0 to "
            "1e9, got 1e+300 and 8e-09");
  // The longest of all that are taken.
  EXPECT_EQ(why([](Job& j) {
              j.profile.forward = j.profile.update = 1e9;
              for (TensorProfile& t : j.profile.tensors) t.backward = 1e9;
              j.profile.costs[0].curve = CostCurve({{0, 0}, {1, 1e9}});
              j.network.between = {1e9, 1e9};
              j.ranks = 0x1p31;
            }),
            "nothing");
}

TEST(AutoPlanner, IsNeverLongerThanAnyOther) {
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    const Job job = random_job(seed);
    const double best = seconds("auto:lower=true,slack=0", job);
    EXPECT_LE(seconds("auto:lower=true", job), 1.01 * best) << seed;
    for (const PlannerEntry& entry : planners()) {
      EXPECT_LE(best, seconds(entry.name, job) * kRounding)
          << entry.name << " " << seed;
    }
    for (const auto& [collective, values] :
         {std::pair("dense", "fp32"), std::pair("dense-bf16", "bf16")}) {
      Job asked = job;
      asked.sparse.values = values;
      const double least = seconds("auto:lower=true,slack=0", asked);
      Job dense = job;
      dense.sparse.sparsifier = "none";
      dense.sparse.collective = dense.dense_collective = collective;
      for (const char* name : {"layerwise", "single", "size=25M", "mgwfbp"}) {
        EXPECT_LE(least, seconds(name, dense) * kRounding)
            << collective << " " << name << " " << seed;
      }
    }
  }
}

// Nobody who asked for fp32 gets rounded sums because these take less time.
TEST(Planners, KeepTheFormOfValues) {
  const auto rounded = [](const char* planner, const Job& job) {
    const Plan plan = make_planner(planner)->make(job);
    return std::ranges::count(plan.buckets, "dense-bf16",
                              &BucketPlan::collective);
  };
  for (const char* planner : {"auto", "espresso", "hierarchical"}) {
    for (const char* sparsifier : {"topk", "none"}) {
      std::ptrdiff_t in_bf16 = 0;
      for (unsigned seed = 0; seed < kJobs; ++seed) {
        Job job = random_job(seed);
        job.sparse.sparsifier = sparsifier;
        EXPECT_EQ(rounded(planner, job), 0) << planner << " " << seed;
        job.sparse.values = "bf16";
        in_bf16 += rounded(planner, job);
      }
      EXPECT_GT(in_bf16, 0) << planner << " " << sparsifier;
    }
  }
}

TEST(FixedPlan, IsWhatLivePlansBeginWith) {
  Job job = random_job(2);
  const auto buckets = [&](const char* planner) {
    return make_planner(planner)->make(job).buckets;
  };
  EXPECT_FALSE(make_planner("fixed")->needs_costs());
  job.device = "cpu";
  EXPECT_EQ(buckets("fixed"), buckets("size=1M"));
  job.device = "cuda";
  EXPECT_EQ(buckets("fixed"), buckets("single"));
}

// Nor where messages keep backward waiting, which merges do not know of.
TEST(AutoPlanner, IsNeverLongerOnOneCore) {
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    Job job = random_job(seed);
    job.streams.select_beside = false;
    job.streams.one_core = true;
    const double best = seconds("auto:lower=true,slack=0", job);
    for (const PlannerEntry& entry : planners()) {
      EXPECT_LE(best, seconds(entry.name, job) * kRounding)
          << entry.name << " " << seed;
    }
  }
}

// Of plans that take about as long.
TEST(AutoPlanner, SendsLess) {
  const auto cost = [](const char* planner, const Job& job) {
    return step_cost(make_planner(planner)->make(job), job);
  };
  unsigned less = 0;
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    const Job job = random_job(seed);
    const StepCost usual = cost("auto", job);
    const StepCost shortest = cost("auto:slack=0", job);
    EXPECT_LE(usual.bytes, shortest.bytes * kRounding) << seed;
    if (usual.bytes < 0.9 * shortest.bytes) ++less;
    if (job.all_dense()) {
      EXPECT_EQ(usual.seconds, shortest.seconds) << seed;
    }
  }
  EXPECT_GT(less, 2U);
}

TEST(AutoPlanner, CompressesWhereItPaysOnly) {
  Job job = job_of({1000000, 2000000, 4000000});
  job.ranks = 8;
  const auto sparse = [&] {
    const Plan plan = make_planner("auto")->make(job);
    return std::count_if(
        plan.buckets.begin(), plan.buckets.end(),
        [](const BucketPlan& b) { return b.sparsifier != "none"; });
  };
  EXPECT_GT(sparse(), 0);
  // A free network, and memory as fast as a GPU's.
  for (const char* what : {"sum", "apply"}) {
    job.profile.costs.push_back(
        {what, "none", "cpu", CostCurve({{1, 1e-12}, {1e9, 1e-3}})});
  }
  job.network.between = {1e-6, 1e-12};
  EXPECT_EQ(sparse(), 0);
}

TEST(AutoPlanner, LowersNoDensityUnlessItMay) {
  int lowered = 0;
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    const Job job = random_job(seed);
    for (const char* name : {"auto:lower=true", "auto"}) {
      for (const BucketPlan& b : make_planner(name)->make(job).buckets) {
        const bool less = b.density.value_or(1) < job.density;
        if (less) ++lowered;
        EXPECT_FALSE(less && name == std::string("auto")) << seed;
      }
    }
  }
  EXPECT_GT(lowered, 0);
}

TEST(Lags, SendsMoreWhereItIsHidden) {
  // Long backward behind the first, nothing behind the last one.
  Job job = job_of({1000000, 1000000, 1000000, 1000000});
  job.profile.tensors[2].backward = 0.03;
  job.profile.tensors[1].backward = 1;
  const Plan plan = make_planner("lags")->make(job);
  ASSERT_EQ(plan.buckets.size(), 4);
  EXPECT_GT(plan.buckets[0].density.value_or(0), 2 * job.density);
  EXPECT_EQ(plan.buckets[1].sparsifier, "none");  // all of it is hidden
  EXPECT_EQ(plan.buckets[3].density, std::nullopt);
  EXPECT_GT(simulate(plan, job).bytes,
            simulate(make_planner("layerwise")->make(job), job).bytes);
}

// But for what dense sums take at the end of the step.
TEST(Lags, CostsNoTime) {
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    Job job = random_job(seed);
    job.streams.apply_beside = false;
    job.profile.costs.push_back(
        {"apply", "none", job.device, CostCurve({{1, 0}, {2, 0}})});
    EXPECT_LE(seconds("lags", job), seconds("layerwise", job) * kRounding)
        << seed;
  }
}

TEST(AdtopkPartial, StaysWithinTheBytesOfAllSparse) {
  int dense = 0;
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    Job job = random_job(seed);
    job.dense.clear();
    const Plan plan = make_planner("adtopk-partial")->make(job);
    const Way all(job, job.sparse);
    double elements = 0;
    double sparse_bytes = 0;
    double dense_bytes = 0;
    double sparse_elements = 0;
    for (const BucketPlan& b : plan.buckets) {
      double own = 0;
      for (const std::size_t t : b.tensors) {
        own += static_cast<double>(job.profile.tensors[t].elements);
      }
      elements += own;
      if (b.sparsifier == "none") {
        dense_bytes += Way(job, b).of(own).bytes;
        ++dense;
      } else {
        sparse_elements += own;
        EXPECT_LE(b.density.value_or(job.density), job.density);
        EXPECT_GE(b.density.value_or(job.density), 0.25 * job.density);
        sparse_bytes = Way(job, b).of(sparse_elements).bytes;
      }
    }
    EXPECT_LE(sparse_bytes + dense_bytes, all.of(elements).bytes * kRounding)
        << seed;
  }
  EXPECT_GT(dense, 5) << "some tensors stay dense";
}

}  // namespace
}  // namespace sluice::testing
