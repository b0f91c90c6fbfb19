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
  // What planners make is to be hierarchical: see Plan.
  bool hierarchical = false;

  BucketPlan sparse;  // what sparse buckets are like
  std::string dense_collective = "dense";
  std::vector<bool> dense;  // per tensor: must not be sparsified; or empty
  double density = 0.01;    // of buckets that have none of their own

  bool all_dense() const { return sparse.sparsifier == "none"; }
  bool must_be_dense(std::size_t tensor) const;
  // Whether a hierarchical plan is another than a flat one.
  bool shares_machines() const { return network.two_level() && ranks > 1; }
  // The host selects such a bucket for another device.
  bool offloads(const BucketPlan& bucket) const {
    return !bucket.device.empty() && bucket.device != device;
  }
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
  double select = 0;    // with the copy to the host that selects it, if any
  double exchange = 0;  // with what is coded and merged on the way
  double apply = 0;
  double bytes = 0;  // received by the rank that receives most

  double seconds() const { return select + exchange + apply; }
};

// Rows of a tensor that pieces are made of: its first dimension, or all of its
// elements where that is not known.
std::size_t rows_of(const TensorProfile& tensor);
// What a bucket has of the elements of its tensors.
std::size_t bucket_elements(const Profile& profile, const BucketPlan& bucket);

// Seconds of the vote at the end of a step of so many buckets.
double vote_seconds(const Job& job, std::size_t buckets);

// How a bucket may travel, with what that costs looked up once; the mean over
// rules that take turns. Refers to the job, which must outlive it.
class Way {
 public:
  // `free`: what is not the network costs nothing. In a plan that is
  // hierarchical if the job asks for that, or as given. Throws
  // std::invalid_argument unless it is priced().
  Way(const Job& job, const BucketPlan& like, bool free = false)
      : Way(job, like, free, job.hierarchical) {}
  Way(const Job& job, const BucketPlan& like, bool free, bool hierarchical);

  // Whether the profile has what such a bucket takes: of one that the host
  // selects for another device, copies and the host's select and apply.
  static bool priced(const Job& job, const BucketPlan& like);

  // Of a bucket of so many elements; by its own density unless one is given.
  BucketCost of(double elements) const { return of(elements, density_); }
  BucketCost of(double elements, double density) const;
  bool dense() const { return dense_; }
  // Dense buckets are applied when the step is committed, and those of
  // machines.
  bool applied_at_end() const { return dense_ || of_machines_; }
  // The host selects it for another device: see BucketWork::beside.
  bool beside() const { return offloaded_; }
  const BucketPlan& like() const { return like_; }

 private:
  struct Curves {
    const CostCurve *select, *encode, *decode, *merge, *apply, *sum, *copy;
  };

  Rates rates(const Curves& curves, double entries, double elements) const;
  Cost exchange(const Workload& load, const Rates& rates,
                const Topology& net) const;
  double work_of(const Workload& load, const Rates& rates,
                 const Cost& whole) const;
  Cost exchange_machines(const Workload& load, const Rates& rates,
                         const Topology& net) const;

  const Job* job_;
  BucketPlan like_;
  const CostRow* row_;
  bool dense_;
  bool of_machines_;
  bool offloaded_;
  bool free_;
  double density_;
  double value_bytes_;
  std::vector<Curves> curves_;  // by rule
  const CostCurve* pack_;       // of a dense bucket
};

}  // namespace sluice
