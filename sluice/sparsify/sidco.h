#pragma once

#include <cmath>

#include "sluice/sparsify/special_functions.h"
#include "sluice/sparsify/statistical.h"
#include "sluice/sparsify/tail.h"

namespace sluice {

// The thresholds of one stage: what a share d of a fitted distribution exceeds.
SLUICE_HD inline double exponential_threshold(double mean, double d) {
  return -mean * std::log(d);
}

SLUICE_HD inline double pareto_threshold(double mean, double variance,
                                         double d) {
  if (!(variance > 0)) return exponential_threshold(mean, d);
  const double q = mean * mean / variance;
  const double scale = mean * (q + 1) / 2;
  const double kappa = (q - 1) / 2;
  if (std::abs(kappa) < 1e-6) return -scale * std::log(d);
  return scale * (1 - std::pow(d, kappa)) / kappa;
}

// s = -mean of ln(a / mean); exact solves the gamma tail, otherwise the paper's
// approximation, where it is valid.
SLUICE_HD inline double gamma_threshold(double mean, double s, double d,
                                        bool exact) {
  if (!(s > 0)) return exponential_threshold(mean, d);
  const double alpha =
      (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s);
  const double beta = mean / alpha;
  if (!exact) {
    const double eta = -beta * (std::log(d) + log_gamma(alpha));
    if (eta > 0) return eta;
  }
  return beta * inverse_gamma_q(alpha, d);
}

enum class SidcoKind : std::uint8_t { kExponential, kGammaPareto, kPareto };

// SIDCo (MLSys'21): the tail of a fitted distribution, refitted to what exceeds
// it, in a few stages. Off by more than a factor of two, it selects exactly.
struct SidcoParams {
  std::int64_t stages = 3;
  bool adapt = true;
  double first_ratio = 0.25;
  std::int64_t sample = 1 << 17;
  bool exact_gamma = true;
  bool correct = true;
};

// One round.
struct SidcoRule {
  static constexpr std::uint32_t kRounds = 1;
  struct Constants {
    std::int32_t stages;
    bool adapt;
    bool exact_gamma;
    bool correct;
    SidcoKind kind;
    double first_ratio;
    std::int64_t sample;
  };

  SLUICE_HD static Query ask(const RuleCall& call) {
    const auto& c = params_as<Constants>(call.params);
    Query query;
    query.sample = c.sample == 0 || call.facts.n < 64
                       ? call.facts.n
                       : static_cast<std::uint64_t>(c.sample);
    query.histogram = true;
    query.sums = true;
    return query;
  }

  SLUICE_HD static Bracket propose(const RuleCall& call, const Answer& answer) {
    const auto& c = params_as<Constants>(call.params);
    auto& state = state_as<State>(call.state);
    if (answer.moments.max_abs == 0) return nothing();
    if (call.facts.n < 64) return exactly();  // too few to fit anything
    if (state.stages == 0) {
      state.stages = c.stages;
      state.direction = 1;
    }
    state.stages = clamp_to(state.stages, 1, max_stages(call.facts.density));
    return above(staged_threshold(c, answer, call.facts, state.stages));
  }

  SLUICE_HD static Verdict judge(const RuleCall& call, const Counts& counts) {
    state_as<State>(call.state).count = static_cast<double>(counts.lo);
    if (!params_as<Constants>(call.params).correct) {
      return {Verdict::kTake, counts.lo};
    }
    return within(call, counts, 0.5, 2);
  }

  SLUICE_HD static void observe(const RuleCall& call, const Outcome&) {
    auto& state = state_as<State>(call.state);
    const auto& c = params_as<Constants>(call.params);
    if (!c.adapt || state.stages == 0) return;
    state.ratios += state.count / static_cast<double>(call.facts.k);
    if (++state.calls >= kCallsPerChange) adapt(state, call.facts.density);
  }

 private:
  static constexpr int kCallsPerChange = 5;
  static constexpr double kTolerance = 0.2;
  struct State {
    std::int32_t stages;     // 0: not set yet
    std::int32_t direction;  // of the next change
    std::int32_t calls;
    double ratios;  // sum of k_hat / k over `calls`
    double last;    // mean ratio of the calls before; 0: none
    double count;   // passed in this step
  };

  SLUICE_HD static int max_stages(double density) {
    return max_of(1, static_cast<int>(std::ceil(std::log2(1 / density))));
  }

  // -mean of ln(a / mean). Zeros, and what is as good as zero, count as kOffset
  // of the mean.
  SLUICE_HD static double gamma_statistic(const Answer& answer, double mean) {
    constexpr double kOffset = 2.220446e-16;
    const auto n = static_cast<double>(answer.moments.count);
    const std::size_t least = bin_of(kOffset * mean);
    const TailSums tail = answer.tails.from(least > 0 ? least : 1);
    return -(tail.logs - tail.count * std::log(mean) +
             (n - tail.count) * std::log(kOffset)) /
           n;
  }

  SLUICE_HD static double first_threshold(const Constants& c,
                                          const Answer& answer, double d) {
    const Moments& m = answer.moments;
    const auto n = static_cast<double>(m.count);
    const double mean = m.sum_abs / n;
    switch (c.kind) {
      case SidcoKind::kExponential:
        return exponential_threshold(mean, d);
      case SidcoKind::kGammaPareto:
        return gamma_threshold(mean, gamma_statistic(answer, mean), d,
                               c.exact_gamma);
      case SidcoKind::kPareto: {
        const double variance =
            n > 1 ? max_of(0.0, m.sum_sq - n * mean * mean) / (n - 1) : 0;
        return pareto_threshold(mean, variance, d);
      }
    }
    return 0;
  }

  SLUICE_HD static double staged_threshold(const Constants& c,
                                           const Answer& answer,
                                           const SegmentFacts& facts,
                                           int stages) {
    if (facts.density >= c.first_ratio) stages = 1;
    if (stages == 1) return first_threshold(c, answer, facts.density);
    double eta = first_threshold(c, answer, c.first_ratio);
    const double ratio =
        std::pow(facts.density / c.first_ratio, 1.0 / (stages - 1));
    const Tail tail(answer, facts.n);
    for (int stage = 1; stage < stages; ++stage) {
      const Tail::Excess over = tail.excess_above(eta);
      // Equal or two-level data would move past everything.
      if (over.count <= static_cast<double>(facts.k) || over.mean <= 0) break;
      eta += c.kind == SidcoKind::kExponential
                 ? exponential_threshold(over.mean, ratio)
                 : pareto_threshold(over.mean, over.variance, ratio);
    }
    return eta;
  }

  // The rule that escapes (-3 of the reference): turn round unless the last
  // change brought the ratio closer to 1.
  SLUICE_HD static void adapt(State& state, double density) {
    const double e = state.ratios / state.calls;
    const bool improved = (e > state.last && state.last < 1 - kTolerance) ||
                          (e < state.last && state.last > 1 + kTolerance);
    if (state.last > 0 && !improved) state.direction = -state.direction;
    if (e > 1 + kTolerance) state.stages -= state.direction;
    if (e < 1 - kTolerance) state.stages += state.direction;
    state.stages = clamp_to(state.stages, 1, max_stages(density));
    state.last = e;
    state.calls = 0;
    state.ratios = 0;
  }
};

class Sidco : public Sparsifier {
 public:
  using Params = SidcoParams;
  using RuleType = SidcoRule;
  static ParamList list(Params& p);

  Sidco(const Params& params, SidcoKind kind) : params_(params), kind_(kind) {}
  bool estimates() const override { return true; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;

  Params params_;
  SidcoKind kind_;
};

class SidcoE final : public Sidco {
 public:
  static constexpr std::string_view kName = "sidco-e";
  static constexpr std::string_view kSummary =
      "multi-stage threshold from exponential fits";
  explicit SidcoE(const Params& p) : Sidco(p, SidcoKind::kExponential) {}
  std::string_view name() const override { return kName; }
};

class SidcoGp final : public Sidco {
 public:
  static constexpr std::string_view kName = "sidco-gp";
  static constexpr std::string_view kSummary =
      "multi-stage threshold: gamma fit first, then Pareto fits";
  explicit SidcoGp(const Params& p) : Sidco(p, SidcoKind::kGammaPareto) {}
  std::string_view name() const override { return kName; }
};

class SidcoP final : public Sidco {
 public:
  static constexpr std::string_view kName = "sidco-p";
  static constexpr std::string_view kSummary =
      "multi-stage threshold from generalised Pareto fits";
  explicit SidcoP(const Params& p) : Sidco(p, SidcoKind::kPareto) {}
  std::string_view name() const override { return kName; }
};

}  // namespace sluice
