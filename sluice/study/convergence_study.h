#pragma once

#include <map>

#include "sluice/study/evidence.h"
#include "sluice/study/rule_trial.h"
#include "sluice/study/study.h"

namespace sluice {

// What the proofs assume, measured over all ranks: see evidence.h.
//
// A row, of a layer that is selected from, is an object with
//
//   step, layer, n, k (budget), k_hat (mean over workers)
//   xi, relative_error, delta             see Evidence; or null
//   n1, n2                                whose means over steps make delta
//   contraction, bound, bell              see Contraction; bound_k: 1 - k / n
//   residual, gradient, input             norms, of x - g, g and x
//   age_mean, age_p50, age_p90, age_p99, age_max    in steps, see Ages
//
// Numbers of one worker are the mean over workers.
class ConvergenceStudy final : public Study {
 public:
  static constexpr std::string_view kName = "convergence";
  static constexpr std::string_view kSummary =
      "xi, delta, contraction, residuals and ages of entries, layer by layer";
  struct Params {
    StudyScope scope;
  };
  static ParamList list(Params& p) { return params_of(p.scope); }

  ConvergenceStudy(const Params& params, const StudySetup& setup);

  Look look(std::uint64_t step) const override;
  void selected(std::uint64_t step, const SelectedPart& part) override;
  void open(const std::string& folder, std::uint64_t done) override;
  bool is_due(std::uint64_t step) const override {
    return params_.scope.is_due(step);
  }
  void finish(Communicator& comm, std::uint64_t step, bool committed,
              std::span<const std::vector<float>> means) override;

 private:
  // A copy of what was shown.
  struct Kept {
    std::size_t tensor = 0;
    std::size_t first = 0;
    Layer layer;
    std::string rule;
    double density = 0;
    std::uint64_t budget = 0;
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    std::vector<float> gradient;
    std::vector<float> input;
  };
  using Place = std::pair<std::size_t, std::size_t>;  // tensor, first element

  void study(Communicator& comm, std::uint64_t step, const Kept& kept,
             std::span<const float> applied, std::string& problem);
  std::vector<std::byte> message_of(const Kept& kept, std::uint64_t step) const;
  nlohmann::ordered_json row_of(
      std::uint64_t step, const Kept& kept, std::span<const float> applied,
      const std::vector<std::vector<std::byte>>& messages);
  std::vector<float> select_again(std::uint64_t step, const Kept& kept,
                                  std::span<const double> mean);

  Params params_;
  StudySetup setup_;
  std::vector<bool> chosen_;  // by tensor
  StudyRows rows_;
  std::uint64_t began_ = 0;  // the step before the first that was seen
  std::map<Place, Ages> ages_;
  std::unique_ptr<TrialSpace> space_;
  std::map<std::pair<Place, std::string>, RuleTrial> again_;  // by rule
  std::vector<Kept> kept_;                                    // of this step
};

}  // namespace sluice
