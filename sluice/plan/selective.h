#pragma once

#include "sluice/plan/planner.h"

// Planners that choose tensor by tensor whether to compress.

namespace sluice {

// HiPress' SeCoPa: a tensor is compressed where that takes less, each judged
// alone and in as many pieces as are best, one being selected while another
// travels; those that are not travel in batches.
class Hipress final : public Planner {
 public:
  static constexpr std::string_view kName = "hipress";
  static constexpr std::string_view kSummary =
      "compresses the tensors that gain, each judged alone, in pieces that "
      "pipeline; batches the others (HiPress)";
  struct Params {
    std::int64_t batch = 4'000'000;
    std::int64_t pieces = 16;
  };
  static ParamList list(Params& p) {
    return {{"batch", &p.batch, "bytes of dense tensors that travel together",
             1, 1e15},
            {"pieces", &p.pieces, "of a tensor, at most; nor more than workers",
             1, 4096}};
  }

  explicit Hipress(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  Plan plan(const Job& job) const override;

  Params params_;
};

// Espresso: largest tensors first, each takes the way that makes the simulated
// step shortest; those whose exchange ends before the link idles are left. Then
// the host selects as many of those that travel alike as shorten the step.
class Espresso final : public Planner {
 public:
  static constexpr std::string_view kName = "espresso";
  static constexpr std::string_view kSummary =
      "each tensor the way that makes the simulated step shortest, largest "
      "first; then on the host what gains by that (Espresso)";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit Espresso(const Params&) {}
  std::string_view name() const override { return kName; }

 private:
  Plan plan(const Job& job) const override;
};

}  // namespace sluice
