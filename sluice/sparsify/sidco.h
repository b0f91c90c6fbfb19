#pragma once

#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// The thresholds of one stage: what a share d of a fitted distribution exceeds.
double exponential_threshold(double mean, double d);
double pareto_threshold(double mean, double variance, double d);
// s = -mean of ln(a / mean); exact solves the gamma tail, otherwise the paper's
// approximation, where it is valid.
double gamma_threshold(double mean, double s, double d, bool exact);

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

class Sidco : public Sparsifier {
 public:
  using Params = SidcoParams;
  static ParamList list(Params& p);

  Sidco(const Params& params, SidcoKind kind) : params_(params), kind_(kind) {}

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
