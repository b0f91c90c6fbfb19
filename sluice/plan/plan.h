#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// One of `count` parts of a tensor, which are alike but for rounding: of n rows
// (the first dimension) those from index * n / count on, up to the next part.
struct Piece {
  std::size_t index = 0;
  std::size_t count = 1;

  bool whole() const { return count == 1; }
  std::size_t begin(std::size_t rows) const { return index * rows / count; }
  std::size_t end(std::size_t rows) const { return (index + 1) * rows / count; }

  friend bool operator==(const Piece&, const Piece&) = default;
};

// Tensors that travel together, and how.
struct BucketPlan {
  std::vector<std::size_t>
      tensors;                      // in the order in which backward makes them
  Piece piece;                      // of each of them
  std::string sparsifier = "topk";  // "none": dense
  // Sparsifiers that take turns with it, step by step: it has step 0, the first
  // of these step 1, and so on, round and round.
  std::vector<std::string> turns;
  std::string feedback = "residual";
  std::string collective = "auto";
  std::optional<double> density;  // above 0, at most 1; see bucket_density
  std::string values = "fp32";    // of what was selected: fp32, bf16 or fp16
  // Where it is selected: "" where its gradients are, or "cpu".
  std::string device;

  bool dense() const { return sparsifier == "none"; }

  friend bool operator==(const BucketPlan&, const BucketPlan&) = default;
};

// What travels with what, in the order of exchange. Data: knows nothing of how
// it was made.
struct Plan {
  std::string name;
  // Ranks of one machine add their gradients first, and exchange as one.
  bool hierarchical = false;
  std::vector<BucketPlan> buckets;

  friend bool operator==(const Plan&, const Plan&) = default;
};

// Of the schedule: in a step, and once it has come to its end.
struct Densities {
  double now = 1;
  double end = 1;
};

// What a bucket selects of its entries: the schedule's density of the step, or
// its own, as many times higher as the schedule is above its end, at most 1.
double bucket_density(const BucketPlan& bucket, const Densities& schedule);

// `names` are those of the model's tensors, in forward order; the plan has each
// of them once.
std::string to_json(const Plan& plan, std::span<const std::string> names);

// Throws std::invalid_argument unless it is a plan of version 2 that
// check_plan() accepts. Of files with several see decisions.h.
Plan plan_from_json(std::string_view json, std::span<const std::string> names);

// The tensors that a plan's JSON names, in its order, each once; for who has no
// model at hand. Throws as plan_from_json() does.
std::vector<std::string> plan_tensors(std::string_view json);

// Throws std::invalid_argument, naming bucket and tensor, unless the plan has
// each of these tensors once, or each of its pieces, its densities make sense,
// and nothing is asked of dense buckets that only sparse ones can do.
void check_plan(const Plan& plan, std::span<const std::string> names);

// Per bucket: its first tensor, and how many more there are, as in
// "fc1.weight + 3".
std::vector<std::string> bucket_labels(const Plan& plan,
                                       std::span<const std::string> names);

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
// are dense, and each takes tensors until it has that size. Throws
// std::invalid_argument for any other text.
Plan make_plan(std::string_view text, const PlanInput& input);

// The bytes of a text that begins with "size="; throws as make_plan() does.
std::int64_t parse_plan_bytes(std::string_view text);

}  // namespace sluice
