#pragma once

#include "sluice/plan/planner.h"

namespace sluice {

// The plan with the shortest simulated step: the best merges with the best way
// for each bucket, all dense among them, by a dynamic program; or what another
// planner makes, if that is shorter. Never longer than dense-bf16.
class AutoPlanner final : public Planner {
 public:
  static constexpr std::string_view kName = "auto";
  static constexpr std::string_view kSummary =
      "the shortest simulated step over all of these, dense and dense-bf16 "
      "included";
  struct Params {
    bool lower = false;
  };
  static ParamList list(Params& p) {
    return {{"lower", &p.lower,
             "large tensors may get a lower density than asked for, as "
             "adtopk-partial gives them"}};
  }

  explicit AutoPlanner(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  Plan plan(const Job& job) const override;

  Params params_;
};

}  // namespace sluice
