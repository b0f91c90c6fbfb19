#pragma once

#include "sluice/sparsify/special_functions.h"
#include "sluice/sparsify/statistical.h"
#include "sluice/sparsify/tail.h"

namespace sluice {

struct GaussiankParams {
  std::int64_t sample = 1 << 17;
  bool published = false;
};

// One round.
struct GaussiankRule : HistogramRule<GaussiankParams> {
  static constexpr double kFew = 2.0 / 3;
  static constexpr double kMany = 4.0 / 3;

  SLUICE_HD static Bracket propose(const RuleCall& call, const Answer& answer) {
    const auto& p = params_as<GaussiankParams>(call.params);
    const Fit f = fit(answer.moments);
    if (answer.moments.max_abs == 0) return nothing();
    if (!(f.deviation > 0) || !std::isfinite(f.deviation)) return exactly();
    const Tail tail(answer, call.facts.n);
    const auto k = static_cast<double>(call.facts.k);
    const double z = two_sided_normal_quantile(call.facts.density);
    return above(p.published ? published_threshold(tail, f, z, k)
                             : bracketed_threshold(tail, f, z, k,
                                                   answer.moments.max_abs));
  }

  SLUICE_HD static Verdict judge(const RuleCall& call, const Counts& counts) {
    const auto& p = params_as<GaussiankParams>(call.params);
    if (p.published) return {Verdict::kTake, counts.lo};
    return within(call, counts, kFew, kMany);
  }

 private:
  struct Fit {
    double mean = 0;
    double deviation = 0;
  };

  SLUICE_HD static Fit fit(const Moments& m) {
    if (m.count < 2) return {};
    const auto n = static_cast<double>(m.count);
    const double mean = m.sum / n;
    const double variance = (m.sum_sq - n * mean * mean) / (n - 1);
    return {mean, std::sqrt(max_of(0.0, variance))};
  }

  // The published loop: three tests, and the set of the last one is sent.
  SLUICE_HD static double published_threshold(const Tail& tail, const Fit& f,
                                              double z, double k) {
    double threshold = f.mean + z * f.deviation;
    for (int test = 0; test < 2; ++test) {
      const double c = tail.count_above(threshold);
      if (c < kFew * k) {
        threshold *= 0.5;
      } else if (c > kMany * k) {
        threshold *= 1.5;
      } else {
        break;
      }
    }
    return threshold;
  }

  // Ours keeps a bracket, so that the steps cannot jump over the window.
  SLUICE_HD static double bracketed_threshold(const Tail& tail, const Fit& f,
                                              double z, double k,
                                              double largest) {
    double threshold = std::abs(f.mean) + z * f.deviation;
    double lo = 0;
    double hi = largest;
    for (int test = 0; test < 6; ++test) {
      if (threshold >= hi) threshold = (lo + hi) / 2;
      const double c = tail.count_above(threshold);
      if (c > kMany * k) {
        lo = threshold;
        threshold = min_of(1.5 * threshold, (threshold + hi) / 2);
      } else if (c < kFew * k) {
        hi = threshold;
        threshold = max_of(0.5 * threshold, (lo + threshold) / 2);
      } else {
        return threshold;
      }
    }
    return lo;
  }
};

// Gaussian-k: the threshold is a quantile of the fitted normal distribution,
// moved until 2k/3 to 4k/3 entries pass.
class Gaussiank final : public SparsifierOf<Gaussiank, GaussiankParams> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "gaussiank";
  static constexpr std::string_view kSummary =
      "threshold from a fitted normal distribution";
  using RuleType = GaussiankRule;
  static ParamList list(Params& p);
  bool estimates() const override { return true; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

}  // namespace sluice
