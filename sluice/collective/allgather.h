#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// Every block to every rank, coded and decoded where it is; for algorithms that
// fall back on it, too.
//
// Where devices have a link, messages travel in slots of one size, so that no
// host asks for theirs: at first the most that a message can take, then what
// the longest of the last committed step took and a margin. Which slots there
// are changes no sum.
class DirectExchange {
 public:
  // `sum` gets everybody's lists, in the order of ranks.
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Pieces& sum);
  // See SparseAllreduce.
  bool verify(Communicator& comm);
  void commit();
  void roll_back();

 private:
  void by_frames(Communicator& comm, ExchangeContext& context,
                 const Contribution& mine);
  void by_slots(Communicator& comm, ExchangeContext& context,
                const Contribution& mine);
  std::size_t slot_bytes(const Contribution& mine) const;

  // The longest message of a step, and the capacity of the blocks.
  struct Need {
    std::uint64_t bytes = 0;
    std::uint64_t capacity = 0;
  };

  std::vector<SparseBlock> blocks_;  // by rank; one's own is not copied
  Buffer results_;                   // the same
  Buffer host_results_;              // the same
  Buffer sizes_;  // by rank, of the messages in slots; on the host
  Buffer slots_;
  bool by_link_ = false;
  bool did_not_fit_ = false;  // the last time
  Need now_;                  // of the exchange that is under way
  Need last_;                 // of the last step that was committed
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

  static Cost cost(const Workload& load, const Network& network,
                   const Rates& rates);
  explicit Allgather(const Params&) {}
  std::string_view name() const override { return kName; }
  bool verify(Communicator& comm) override { return direct_.verify(comm); }
  void commit(std::uint64_t) override { direct_.commit(); }
  void roll_back() override { direct_.roll_back(); }

 private:
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Delivery& out) override {
    direct_.run(comm, context, mine, out.sum);
  }

  DirectExchange direct_;
};

}  // namespace sluice
