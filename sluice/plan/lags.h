#pragma once

#include "sluice/plan/planner.h"

namespace sluice {

// LAGS: a bucket per tensor, each as dense as backward hides. What it sends
// ends before the next bucket could be sent, so that no density above the
// job's costs time; where even all of it ends by then, it is dense.
class Lags final : public Planner {
 public:
  static constexpr std::string_view kName = "lags";
  static constexpr std::string_view kSummary =
      "a bucket per tensor, each as dense as the next one's backward hides "
      "(LAGS)";
  struct Params {
    double most = 1;
  };
  static ParamList list(Params& p) {
    return {{"most", &p.most, "highest density of a bucket that is not dense",
             0, 1}};
  }

  explicit Lags(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  Plan plan(const Job& job) const override;

  Params params_;
};

}  // namespace sluice
