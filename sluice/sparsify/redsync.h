#pragma once

#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// RedSync's threshold search: t(q) = mean + q (max - mean), q bisected until k
// to 2k entries pass.
class Redsync final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "redsync";
  static constexpr std::string_view kSummary =
      "threshold between mean and maximum, bisected until k to 2k pass";
  struct Params {
    std::int64_t sample = 1 << 17;
    bool exact = true;
  };
  static ParamList list(Params& p);

  explicit Redsync(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;

  Params params_;
};

// RedSync's trimmed form: t(q) is lowered in fifths until enough pass, then the
// k largest of those are taken. Equals top-k.
class RedsyncTrimmed final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "redsync-trimmed";
  static constexpr std::string_view kSummary =
      "trims by mean and maximum, then takes exactly the k largest";
  struct Params {
    std::int64_t sample = 1 << 17;
  };
  static ParamList list(Params& p);

  explicit RedsyncTrimmed(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;

  Params params_;
};

// RedSync's quantised form: the k largest positive entries in even steps, the k
// most negative in odd ones, all sent as their mean.
class RedsyncQuantized final : public Sparsifier {
 public:
  static constexpr std::string_view kName = "redsync-quantized";
  static constexpr std::string_view kSummary =
      "the k largest of one sign, sent as one mean; the sign alternates";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit RedsyncQuantized(const Params&) {}
  std::string_view name() const override { return kName; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

}  // namespace sluice
