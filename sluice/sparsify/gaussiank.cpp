#include "sluice/sparsify/gaussiank.h"

#include <algorithm>
#include <cmath>

#include "sluice/core/key.h"
#include "sluice/sparsify/special_functions.h"
#include "sluice/sparsify/statistical.h"
#include "sluice/sparsify/tail.h"

namespace sluice {
namespace {

constexpr double kFew = 2.0 / 3;
constexpr double kMany = 4.0 / 3;

struct Fit {
  double mean = 0;
  double deviation = 0;
};

Fit fit(const Moments& m) {
  if (m.count < 2) return {};
  const auto n = static_cast<double>(m.count);
  const double mean = m.sum / n;
  const double variance = (m.sum_sq - n * mean * mean) / (n - 1);
  return {mean, std::sqrt(std::max(0.0, variance))};
}

// The published loop: three tests, and the set of the last one is sent.
double published_threshold(const Tail& tail, const Fit& f, double z, double k) {
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
double bracketed_threshold(const Tail& tail, const Fit& f, double z, double k,
                           double largest) {
  double threshold = std::abs(f.mean) + z * f.deviation;
  double lo = 0;
  double hi = largest;
  for (int test = 0; test < 6; ++test) {
    if (threshold >= hi) threshold = (lo + hi) / 2;
    const double c = tail.count_above(threshold);
    if (c > kMany * k) {
      lo = threshold;
      threshold = std::min(1.5 * threshold, (threshold + hi) / 2);
    } else if (c < kFew * k) {
      hi = threshold;
      threshold = std::max(0.5 * threshold, (lo + threshold) / 2);
    } else {
      return threshold;
    }
  }
  return lo;
}

Bracket propose(const RuleCall& call, const Answer& answer) {
  const auto& p = params_as<Gaussiank::Params>(call.params);
  const Fit f = fit(answer.moments);
  if (answer.moments.max_abs == 0) return nothing();
  if (!(f.deviation > 0) || !std::isfinite(f.deviation)) return exactly();
  const Tail tail(answer, call.facts.n);
  const auto k = static_cast<double>(call.facts.k);
  const double z = two_sided_normal_quantile(call.facts.density);
  return above(
      p.published ? published_threshold(tail, f, z, k)
                  : bracketed_threshold(tail, f, z, k, answer.moments.max_abs));
}

Verdict judge(const RuleCall& call, const Counts& counts) {
  const auto& p = params_as<Gaussiank::Params>(call.params);
  if (p.published) return {Verdict::kTake, counts.lo};
  return within(call, counts, kFew, kMany);
}

}  // namespace

ParamList Gaussiank::list(Params& p) {
  return {sample_param(p.sample),
          {"published", &p.published,
           "the loop of the paper's code, which may miss k by far"}};
}

void Gaussiank::choose(const Shape3&, SegmentTask& task) const {
  plan_statistical(
      task, params_, &propose, &judge,
      params_.published ? static_cast<double>(task.facts.n) : kMany);
}

}  // namespace sluice
