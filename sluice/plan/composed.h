#pragma once

#include "sluice/plan/planner.h"

// ADTopk's planners that change what another one makes.

namespace sluice {

// Two rules take turns, step by step, in every sparse bucket.
class Interleaved final : public Planner {
 public:
  static constexpr std::string_view kName = "interleaved";
  static constexpr std::string_view kSummary =
      "what another planner makes, with a second rule that takes the odd steps "
      "(ADTopk)";
  struct Params {
    std::string of = "size";
    std::string with = "topk";
  };
  static ParamList list(Params& p) {
    return {{"of", &p.of, "the other planner"},
            {"with", &p.with, "sparsifier of the odd steps"}};
  }

  explicit Interleaved(const Params& params)
      : of_(make_planner(params.of)), with_(params.with) {}
  std::string_view name() const override { return kName; }
  bool needs_costs() const override { return of_->needs_costs(); }

 private:
  Plan plan(const Job& job) const override;

  std::unique_ptr<Planner> of_;
  std::string with_;
};

// Dense and sparse tensors of one group, each by a collective of its own, back
// to back: none waits for the end of backward.
class Hybrid final : public Planner {
 public:
  static constexpr std::string_view kName = "hybrid";
  static constexpr std::string_view kSummary =
      "groups as another planner merges them, dense and sparse tensors of each "
      "by a collective of their own (ADTopk)";
  struct Params {
    std::string of = "size=25M";
    std::int64_t below = 0;
  };
  static ParamList list(Params& p) {
    return {{"of", &p.of, "the planner that merges"},
            {"below", &p.below,
             "tensors of at most so many elements are dense as well", 0, 1e15}};
  }

  explicit Hybrid(const Params& params)
      : of_(make_planner(params.of)), below_(params.below) {}
  std::string_view name() const override { return kName; }
  bool needs_costs() const override { return of_->needs_costs(); }

 private:
  Plan plan(const Job& job) const override;

  std::unique_ptr<Planner> of_;
  std::int64_t below_;
};

}  // namespace sluice
