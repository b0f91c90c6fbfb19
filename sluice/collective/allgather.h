#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// Every rank sends its entries to every other and adds all of them in rank
// order.
class Allgather final : public SparseAllreduce {
 public:
  static constexpr std::string_view kName = "allgather";
  static constexpr std::string_view kSummary =
      "every list to every rank: exact, (P - 1) k entries received";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit Allgather(const Params&) {}
  std::string_view name() const override { return kName; }

 private:
  void run(Communicator& comm, const Contribution& mine, std::span<float> sum,
           Entries& returned) override;
};

}  // namespace sluice
