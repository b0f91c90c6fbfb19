#pragma once

#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// Gaussian-k: the threshold is a quantile of the fitted normal distribution,
// moved until 2k/3 to 4k/3 entries pass.
class Gaussiank final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "gaussiank";
  static constexpr std::string_view kSummary =
      "threshold from a fitted normal distribution";
  struct Params {
    std::int64_t sample = 1 << 17;
    bool published = false;
  };
  static ParamList list(Params& p);

  explicit Gaussiank(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;

  Params params_;
};

}  // namespace sluice
