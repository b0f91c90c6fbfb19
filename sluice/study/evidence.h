#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// What the proofs of sparse training assume, as numbers of one tensor in one
// step. x_p = g_p + r_p is what worker p selects from, C(x_p) what it selects,
// y the mean that all workers get, mean the mean over workers.

namespace sluice {

// Of a selection on one worker.
struct Contraction {
  double reached = 0;  // ||x - C(x)||^2 / ||x||^2
  // What is proved for the k entries that were really selected, 1 - k / n: by
  // Top-k for any x, by random-k in the mean, and by ADTopk, row by row, of k
  // of a row's n entries.
  double bound = 0;
  // (1 - k/n)^2, which Shi et al. (2019, Gaussian-k) claim for bell-shaped x.
  double bell = 0;
};
// Nothing if x is 0. `indices` ascend.
std::optional<Contraction> contraction(std::span<const float> x,
                                       std::span<const std::uint32_t> indices,
                                       std::span<const float> values);

// Over all workers.
struct Evidence {
  // gTop-k's N1^2 = ||mean x - y||^2, and what random-k of the mean would
  // leave, N2^2 = (1 - k/n) ||mean x||^2, in expectation rather than for one
  // draw.
  double n1 = 0;
  double n2 = 0;
  // ADTopk's ||A(mean x) - mean C(x)|| / ||mean g||, A the same selection, and
  // ||mean x - mean C(x)|| / ||mean g||. Nothing if mean g is 0.
  std::optional<double> xi;
  std::optional<double> relative_error;

  // The assumption of gTop-k (IJCAI'19), of a layer in LAGS (ECAI'20): at most
  // 1 if it holds. Nothing if the denominator is 0.
  std::optional<double> delta() const;
};

// Vectors of one length, of double: means over workers.
struct Means {
  std::span<const double> inputs;     // of x
  std::span<const double> gradients;  // of g
  std::span<const double> selected;   // of C(x)
};
// `again`: A(mean x); `applied`: y; `k`: the budget of one worker.
Evidence evidence(const Means& means, std::span<const float> again,
                  std::span<const float> applied, std::uint64_t k);

// Steps since entries were last selected, one worker's.
class Ages {
 public:
  // All as if they had been sent right before the first step.
  explicit Ages(std::size_t entries) : last_(entries, 0) {}

  // After a step, which counts from 1: these were sent in it.
  void sent(std::uint64_t step, std::span<const std::uint32_t> indices);

  struct Quantiles {
    double mean = 0;
    std::uint64_t median = 0;
    std::uint64_t p90 = 0;
    std::uint64_t p99 = 0;
    std::uint64_t oldest = 0;
  };
  // How many steps ago, after that step; 0: in it. All 0 if there are none. The
  // q-quantile is the smallest age that at least a share q of all entries does
  // not exceed.
  Quantiles quantiles(std::uint64_t step) const;

 private:
  std::vector<std::uint32_t> last_;
};

}  // namespace sluice
