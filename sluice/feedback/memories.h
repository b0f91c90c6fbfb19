#pragma once

#include "sluice/feedback/feedback.h"

namespace sluice {

// Nothing is kept: what is not sent is lost, and reported as such.
class NoFeedback final : public Feedback {
 public:
  static constexpr std::string_view kName = "none";
  static constexpr std::string_view kSummary =
      "keeps nothing; reports the mass that is lost";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  NoFeedback(const Params&, const Setup& setup) : Feedback(setup) {}
  std::string_view name() const override { return kName; }

 private:
  Weights prepare(Stream& stream, std::span<SegmentTask> tasks,
                  const StepInfo& step) override;
};

// x = beta * r + gamma * g is selected from; what is not sent becomes r.
class ResidualFeedback final : public Feedback {
 public:
  static constexpr std::string_view kName = "residual";
  static constexpr std::string_view kSummary =
      "keeps what was not sent and adds it to the next gradient";
  struct Params {
    double beta = 1;
    double gamma = 1;
  };
  static ParamList list(Params& p);

  ResidualFeedback(const Params& params, const Setup& setup)
      : Feedback(setup), params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  Weights prepare(Stream& stream, std::span<SegmentTask> tasks,
                  const StepInfo& step) override;

  Params params_;
};

// Momentum correction of DGC (ICLR'18): the velocity v of a local momentum u is
// selected from; sent entries leave v and, with factor masking, u. The
// optimizer must then apply no momentum of its own.
class DgcFeedback final : public Feedback {
 public:
  static constexpr std::string_view kName = "dgc";
  static constexpr std::string_view kSummary =
      "momentum correction with factor masking and local clipping";
  struct Params {
    double momentum = 0.9;
    bool nesterov = false;
    bool masking = true;
    double clip = 0;
    std::int64_t workers = 1;

    // Of the sum of so many workers' gradients.
    double local_clip(std::size_t together = 1) const;
  };
  static ParamList list(Params& p);

  DgcFeedback(const Params& params, const Setup& setup)
      : Feedback(setup),
        params_(params),
        nonfinite_(setup.backend.allocate(setup.bucket.segments().size() *
                                          sizeof(std::uint64_t))) {}
  std::string_view name() const override { return kName; }

 private:
  Weights prepare(Stream& stream, std::span<SegmentTask> tasks,
                  const StepInfo& step) override;
  void on_commit(Stream& stream, std::span<const SparseView> refused) override;

  Params params_;
  Buffer nonfinite_;  // one count per segment
  Buffer refused_;    // momenta that stay
  std::vector<MomentumTask> momenta_;
  std::vector<MemoryRange> masked_;
};

}  // namespace sluice
