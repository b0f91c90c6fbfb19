#pragma once

#include "sluice/plan/planner.h"

namespace sluice {

// The plan with the shortest simulated step: the best merges with the best way
// for each bucket, all dense among them, by a dynamic program; or what another
// planner makes, if that is shorter. Never longer than dense, nor than
// dense-bf16 where the job asks for values of bf16, but for the slack: of plans
// that take as long the one that sends least is chosen, since what is not in
// the model grows with the bytes.
class AutoPlanner final : public Planner {
 public:
  static constexpr std::string_view kName = "auto";
  static constexpr std::string_view kSummary =
      "the shortest simulated step over all of these, dense included (values "
      "bf16: dense-bf16 as well)";
  struct Params {
    bool lower = false;
    double slack = 0.01;
  };
  static ParamList list(Params& p) {
    return {{"lower", &p.lower,
             "large tensors may get a lower density than asked for, as "
             "adtopk-partial gives them"},
            {"slack", &p.slack,
             "share of a step that a sparse job's may be longer if it sends "
             "less",
             0, 1}};
  }

  explicit AutoPlanner(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  Plan plan(const Job& job) const override;

  Params params_;
};

}  // namespace sluice
