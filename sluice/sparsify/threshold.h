#pragma once

#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// Everything above a fixed magnitude, but never more than `cap` times the
// budget: then the k largest.
class Threshold final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "threshold";
  static constexpr std::string_view kSummary =
      "everything above a fixed magnitude";
  struct Params {
    double value = 0.01;
    double cap = 4;
  };
  static ParamList list(Params& p);

  explicit Threshold(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  bool follows_density() const override { return false; }
  void choose(const Shape3& shape, SegmentTask& task) const override;

  Params params_;
};

// Everything: the dense baseline through the same path.
class None final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "none";
  static constexpr std::string_view kSummary =
      "everything, whatever the density: the dense baseline";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit None(const Params&) {}
  std::string_view name() const override { return kName; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

}  // namespace sluice
