#pragma once

#include <string>

#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// Which dimension the rows of all-dimension top-k run along.
struct AdtopkParams {
  std::string dim = "1";
};

// The rows of a tensor along the chosen dimension; k = max(1, floor(density *
// length)) entries each. "longer" takes dimension 0 if it is the longer one.
RowGeometry adtopk_rows(const Shape3& shape, std::string_view dim,
                        double density);

// ADTopk: the same number of entries from every row of a tensor. A row of a
// convolution weight is one filter tap over all input channels; a 1-D tensor is
// one row.
class Adtopk final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "adtopk";
  static constexpr std::string_view kSummary =
      "exactly the same number of largest entries from every row";
  using Params = AdtopkParams;
  static ParamList list(Params& p);

  explicit Adtopk(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;

  Params params_;
};

// ADTopk in even steps, global top-k in odd ones.
class AdtopkInterleaved final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "adtopk-interleaved";
  static constexpr std::string_view kSummary =
      "adtopk in even steps, topk in odd ones";
  using Params = AdtopkParams;
  static ParamList list(Params& p) { return Adtopk::list(p); }

  explicit AdtopkInterleaved(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;

  Params params_;
};

// The alternation of the HPDC'24 paper: ADTopk in even steps; in odd ones a
// threshold that is found exactly at first, then reused and refreshed.
class AdtopkThreshold final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "adtopk-threshold";
  static constexpr std::string_view kSummary =
      "adtopk in even steps, a reused and refreshed threshold in odd ones";
  struct Params {
    std::string dim = "1";
    std::int64_t interval = 5;
    std::int64_t warm = 15;
  };
  static ParamList list(Params& p);

  explicit AdtopkThreshold(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;

  Params params_;
};

// SparseLoCo's chunks: exactly k per 64 x 64 tile, or per 4096 elements of a
// 1-D tensor.
class Tile final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "tile";
  static constexpr std::string_view kSummary =
      "exactly the same number of largest entries from every 64 x 64 tile";
  struct Params {
    bool two_bit = false;
  };
  static ParamList list(Params& p);

  explicit Tile(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;

  Params params_;
};

}  // namespace sluice
