#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// The dense baseline: a ring all-reduce of all n elements (reduce-scatter, then
// all-gather), or the engine's own if it has one.
class Dense final : public SparseAllreduce {
 public:
  static constexpr std::string_view kName = "dense";
  static constexpr std::string_view kSummary =
      "dense ring all-reduce: exact, 2 n (P - 1) / P values received";
  struct Params {
    bool native = true;
  };
  static ParamList list(Params& p) {
    return {{"native", &p.native, "use the engine's own all-reduce"}};
  }

  explicit Dense(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }

 private:
  void run(Communicator& comm, const Contribution& mine, std::span<float> sum,
           Entries& returned) override;

  Params params_;
};

}  // namespace sluice
