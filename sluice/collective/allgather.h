#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// Every block to every rank, coded and decoded where it is; for algorithms that
// fall back on it, too.
class DirectExchange {
 public:
  // `sum` gets everybody's lists, in the order of ranks.
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Pieces& sum);
  // See SparseAllreduce::verify.
  void verify(Communicator& comm) const;

 private:
  std::vector<SparseBlock> blocks_;  // by rank; one's own is not copied
  Buffer results_;
  Buffer host_results_;
};

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
  void verify(Communicator& comm) override { direct_.verify(comm); }

 private:
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Delivery& out) override {
    direct_.run(comm, context, mine, out.sum);
  }

  DirectExchange direct_;
};

}  // namespace sluice
