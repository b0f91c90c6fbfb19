#include "sluice/plan/ways.h"

namespace sluice {
namespace {

// A dense collective carries bf16 if it rounds what it sums.
bool keeps_form(const Job& job, const CostRow& row) {
  return !row.carries_bf16 || job.sparse.values == "bf16";
}

}  // namespace

std::vector<BucketPlan> sparse_ways(const Job& job) {
  if (job.all_dense()) return {};
  if (job.sparse.collective != "auto") return {job.sparse};
  std::vector<BucketPlan> ways;
  for (const CostRow& row : job.collectives) {
    if (!row.exact || row.name == "auto" || !carries_values(job, row)) continue;
    ways.push_back(job.sparse);
    ways.back().collective = row.name;
  }
  return ways;
}

std::vector<BucketPlan> dense_ways(const Job& job) {
  std::vector<BucketPlan> ways = {dense_bucket(job, job.dense_collective)};
  if (job.all_dense() && job.sparse.collective != "auto") return ways;
  for (const CostRow& row : job.collectives) {
    if (!row.dense || row.name == job.dense_collective) continue;
    if (!keeps_form(job, row)) continue;
    ways.push_back(dense_bucket(job, row.name));
  }
  return ways;
}

}  // namespace sluice
