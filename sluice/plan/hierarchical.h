#pragma once

#include "sluice/plan/planner.h"

namespace sluice {

// What another planner makes if ranks of a machine exchange as one.
class HierarchicalPlanner final : public Planner {
 public:
  static constexpr std::string_view kName = "hierarchical";
  static constexpr std::string_view kSummary =
      "another planner's plan, where ranks of a machine add their gradients "
      "first and exchange as one";
  struct Params {
    std::string of = "auto";
  };
  static ParamList list(Params& p) {
    return {{"of", &p.of, "the other planner"}};
  }

  // Throws std::invalid_argument if there is no such planner, or if it is this
  // one.
  explicit HierarchicalPlanner(const Params& params);
  std::string_view name() const override { return kName; }
  bool needs_costs() const override { return of_->needs_costs(); }

 private:
  Plan plan(const Job& job) const override;

  std::unique_ptr<Planner> of_;
};

}  // namespace sluice
