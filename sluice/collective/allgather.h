#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// The exchange of `Allgather`, for others that fall back on it.
void exchange_directly(Communicator& comm, const Contribution& mine,
                       Pieces& sum);

// Every rank sends its entries to every other and adds all of them in
// an order that all share.
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
  void run(Communicator& comm, const Contribution& mine,
           Delivery& out) override;
};

}  // namespace sluice
