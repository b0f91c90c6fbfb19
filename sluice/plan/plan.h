#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Tensors that travel together, and how.
struct BucketPlan {
  std::vector<std::size_t>
      tensors;                      // in the order in which backward makes them
  std::string sparsifier = "topk";  // "none": dense
  std::string feedback = "residual";
  std::string collective = "auto";
  double density = 0.01;
  std::string values = "fp32";  // of what was selected: fp32, bf16 or fp16

  friend bool operator==(const BucketPlan&, const BucketPlan&) = default;
};

// What travels with what, in the order of exchange. Data: knows nothing of how
// it was made.
struct Plan {
  std::string name;
  std::vector<BucketPlan> buckets;

  friend bool operator==(const Plan&, const Plan&) = default;
};

std::string to_json(const Plan& plan);

// Throws std::invalid_argument unless it is a plan that has each of so many
// tensors once.
Plan plan_from_json(std::string_view json, std::size_t tensors);

struct PlanInput {
  std::vector<std::size_t> sizes;  // elements per tensor, in forward order
  std::vector<bool> dense;         // per tensor: must not be sparsified
  BucketPlan sparse;               // what sparse buckets are like
  std::string dense_collective = "dense";
};

// "layerwise": a bucket per tensor. "single": all in one. "size=BYTES" (64k,
// 25M, ...): neighbours up to so many bytes of gradient. Sparse buckets come in
// the order of backward, that is last tensor first; tensors that must not be
// sparsified go last, in one dense bucket. With sparsifier "none" all buckets
// are dense. Throws std::invalid_argument for any other text.
Plan make_plan(std::string_view text, const PlanInput& input);

}  // namespace sluice
