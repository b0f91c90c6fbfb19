#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// CLT-k (ScaleCom, NeurIPS'20): a leader, another one in each step, tells its
// indices; all ranks deliver what they have accumulated there, selected or not.
// Where all of it is to travel as bf16 the sums do, and what a rank rounds off
// returns to it.
class Cltk final : public SparseAllreduce {
 public:
  static constexpr std::string_view kName = "cltk";
  static constexpr std::string_view kSummary =
      "sum at the indices of a rotating leader: k indices, 2 k values";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  static Cost cost(const Workload& load, const Network& network,
                   const Rates& rates);
  explicit Cltk(const Params&) {}
  std::string_view name() const override { return kName; }
  bool exact() const override { return false; }
  bool needs_rest() const override { return true; }
  bool carries(ValueForm form) const override {
    return form != ValueForm::kFp16;
  }

 private:
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Delivery& out) override;

  HostList sum_;
  HostList extra_;  // delivered although it was not selected
  HostList inside_;
  HostList outside_;  // selected, but not delivered
  HostList rounded_;  // off, at the indices of sum_
};

}  // namespace sluice
