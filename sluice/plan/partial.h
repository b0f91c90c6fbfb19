#pragma once

#include "sluice/plan/planner.h"

namespace sluice {

// ADTopk's partial sparsification: tensors up to a size stay dense, and the
// others send less, so that no more bytes travel than if all were sparse. The
// size is the one whose step is shortest.
class AdtopkPartial final : public Planner {
 public:
  static constexpr std::string_view kName = "adtopk-partial";
  static constexpr std::string_view kSummary =
      "small tensors dense, the others sparser for it, within the bytes of all "
      "sparse (ADTopk)";
  struct Params {
    double least = 0.25;
  };
  static ParamList list(Params& p) {
    return {{"least", &p.least,
             "lowest density of the others, as a share of the job's", 0.001,
             1}};
  }

  explicit AdtopkPartial(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  Plan plan(const Job& job) const override;

  Params params_;
};

}  // namespace sluice
