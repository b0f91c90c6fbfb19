#pragma once

#include <map>

#include "sluice/study/rule_trial.h"
#include "sluice/study/study.h"

namespace sluice {

// What rules are tried on a gradient, and at which densities.
struct TrialPlan {
  std::vector<std::string> rules;  // those that estimate, unless named
  std::vector<double> densities;
};
// From words between spaces; no rules: all that estimate. Throws
// std::invalid_argument for unknown rules and densities outside (0, 1].
TrialPlan make_trial_plan(const std::string& rules,
                          const std::string& densities);

// One layer over the steps: what its values are like.
//
// A row is an object with
//
//   step, layer, what (gradient, or input: what was selected from)
//   n, nonfinite, zeros, below_1e3, largest, norm     see Sparsity
//   tail_index                                        see hill_index; or null
//   laws: by name, location, scale, shape and ks, or null where none fits
//   best: the law with the smallest ks; or null
//   magnitudes: low, below, counts; values: reach, counts   see histogram.h
//   rules: list of rule, density, k, k_hat; where rules were tried
class LayerStudy {
 public:
  // The space must outlive it.
  LayerStudy(TrialSpace& space, Layer layer, const TrialPlan& plan,
             std::uint64_t tensor = 0);

  // `tries`: also the rules, for what a job selects from.
  nlohmann::ordered_json look(std::string_view what,
                              std::span<const float> values,
                              const StepInfo& step, bool tries);
  const Layer& layer() const { return layer_; }

 private:
  struct Trial {
    std::string rule;
    double density;
    RuleTrial trial;
  };

  Layer layer_;
  std::vector<Trial> trials_;
};

// Gradients of the first rank, and what it selects from.
class GradientStudy final : public Study {
 public:
  static constexpr std::string_view kName = "gradients";
  static constexpr std::string_view kSummary =
      "histograms, fitted laws, and how well rules estimate, layer by layer";
  struct Params {
    StudyScope scope;
    std::string densities = "0.01 0.001";
    std::string rules;
    bool dump = false;
  };
  static ParamList list(Params& p);

  GradientStudy(const Params& params, const StudySetup& setup);

  Look look(std::uint64_t step) const override;
  void selected(std::uint64_t step, const SelectedPart& part) override;
  void open(const std::string& folder, std::uint64_t done) override;
  bool is_due(std::uint64_t) const override { return false; }
  void finish(Communicator& comm, std::uint64_t step, bool committed,
              std::span<const std::vector<float>> means) override;

 private:
  // A copy of what was shown.
  struct Kept {
    std::size_t tensor;
    std::size_t first;
    Layer layer;
    bool sparse;
    std::vector<float> gradient;
    std::vector<float> input;
  };
  void write(std::uint64_t step, const Kept& kept);
  void dump(std::uint64_t step, std::string_view what, const Layer& layer,
            std::span<const float> values) const;

  Params params_;
  StudySetup setup_;
  TrialPlan plan_;
  std::vector<bool> chosen_;  // by tensor
  std::string folder_;
  StudyRows rows_;
  std::unique_ptr<TrialSpace> space_;
  std::map<std::pair<std::size_t, std::size_t>, LayerStudy> layers_;
  std::vector<Kept> kept_;  // of this step
};

// The file of a tensor that a study dumps, without a folder, as in
// "fc1.weight.step00000010.gradient.npy", and what it says.
struct DumpName {
  std::string layer;
  std::uint64_t step = 0;
  std::string what;

  std::string file() const;
};
// False if a file has another name.
bool parse_dump_name(const std::string& file, DumpName& out);

}  // namespace sluice
