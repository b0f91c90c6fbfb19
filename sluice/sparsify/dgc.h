#pragma once

#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// How DGC samples a tensor.
struct DgcAttributes {
  std::uint64_t stride = 1;
  std::uint64_t samples = 0;
  std::uint64_t sample_top = 0;  // rank of the threshold in the sample
  std::uint64_t budget = 0;
};
DgcAttributes dgc_attributes(std::uint64_t n, double density,
                             double sample_ratio);

// Deep Gradient Compression (ICLR'18), after its authors' implementation: the
// threshold comes from a strided sample; too many are cut to the k largest, too
// few lower the threshold. From 2^20 elements on the sample consists of whole
// cache lines, at most 2^17 elements of them.
class Dgc final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "dgc";
  static constexpr std::string_view kSummary =
      "threshold from a strided sample, adapted, then re-selected";
  struct Params {
    double sample_ratio = 0.01;
    double upper = 1.3;
    double lower = 0.8;
    std::int64_t rounds = 10;
    bool resample = true;
  };
  static ParamList list(Params& p);

  explicit Dgc(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  std::uint64_t count(double product) const override;
  void choose(const Shape3& shape, SegmentTask& task) const override;

  Params params_;
};

}  // namespace sluice
