#pragma once

#include <string>
#include <vector>

#include "sluice/cost/model.h"
#include "sluice/plan/plan.h"
#include "sluice/plan/profile.h"
#include "sluice/plan/timeline.h"

namespace sluice {

// What a plan is made for, all of it data: who measures fills it in.
struct Job {
  Profile profile;
  Topology network;
  double ranks = 1;
  std::span<const CostRow> collectives;  // see collective_costs()
  std::string device = "cpu";            // of the profile's costs
  Streams streams;
  // Ranks of a machine add their gradients first, and exchange as one.
  bool hierarchical = false;

  BucketPlan sparse;  // what sparse buckets are like
  std::string dense_collective = "dense";
  std::vector<bool> dense;  // per tensor: must not be sparsified; or empty
  double density = 0.01;    // of buckets that have none of their own

  bool all_dense() const { return sparse.sparsifier == "none"; }
  bool must_be_dense(std::size_t tensor) const;
};

// Throws std::invalid_argument for what makes no sense: no ranks, a density
// outside (0, 1], a profile that check_profile() refuses, collectives without a
// cost.
void check_job(const Job& job);

// The same for planners that need no costs.
PlanInput plan_input(const Job& job);

// Marks the tensors that have so many dimensions at most, or fewer elements.
std::vector<bool> dense_tensors(const Profile& profile, std::size_t dims,
                                std::size_t below);

// Whether what a job selects travels in its own width by a collective.
bool carries_values(const Job& job, const CostRow& row);

// The plan of a dense bucket of this job, by a collective that sums vectors.
BucketPlan dense_bucket(const Job& job, std::string_view collective);
// That of tensors that need not be dense; a dense one if all are.
BucketPlan usual_bucket(const Job& job);

// What a bucket takes.
struct BucketCost {
  double select = 0;
  double exchange = 0;  // with what is coded and merged on the way
  double apply = 0;
  double bytes = 0;  // received by the rank that receives most

  double seconds() const { return select + exchange + apply; }
};

// Seconds of the vote at the end of a step.
double vote_seconds(const Job& job);

// How a bucket may travel, with what that costs looked up once. Refers to the
// job, which must outlive it.
class Way {
 public:
  // `free`: what is not the network costs nothing.
  Way(const Job& job, const BucketPlan& like, bool free = false);

  // Of a bucket of so many elements; by its own density unless one is given.
  BucketCost of(double elements) const { return of(elements, density_); }
  BucketCost of(double elements, double density) const;
  // Dense buckets are applied when the step is committed.
  bool dense() const { return dense_; }
  const BucketPlan& like() const { return like_; }

 private:
  struct Curves {
    const CostCurve *select, *encode, *decode, *merge, *apply, *sum;
  };

  Rates rates(double entries, double elements) const;
  Cost exchange(const Workload& load, const Rates& rates) const;

  const Job* job_;
  BucketPlan like_;
  const CostRow* row_;
  bool dense_;
  bool free_;
  double density_;
  double value_bytes_;
  Curves curves_;
};

}  // namespace sluice
