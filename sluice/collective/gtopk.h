#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// The k largest of the sum of lists, one after another.
class MergeAndCut {
 public:
  void start(const ListView& first, std::uint64_t k);
  // Each side cutting by its own k would make ranks disagree, so the larger one
  // counts. `rest`, if any, gets what is cut.
  void add(const ListView& other, std::uint64_t k, bool mine_first,
           HostList* rest = nullptr);

  const ListView& list() const { return list_; }
  // The same, once something has been added.
  const HostList& kept() const { return kept_; }
  std::uint64_t k() const { return k_; }

 private:
  ListView list_;
  std::uint64_t k_ = 0;
  HostList whole_;
  HostList kept_;
};

// gTop-k by recursive doubling with a sticky mask: after each of log2 P rounds
// a block of ranks holds the k largest of the sum of its two halves. An entry
// that leaves is seen to leave by all of the block, and each contributor keeps
// its share, even if the index comes back from another block.
//
// See docs/algorithms.md for a patent that claims this exchange.
class Gtopk final : public SparseAllreduce {
 public:
  static constexpr std::string_view kName = "gtopk";
  static constexpr std::string_view kSummary =
      "k largest of pairwise sums, recursive doubling: 2 k log2 P words";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  static Cost cost(const Workload& load, const Network& network,
                   const Rates& rates);
  explicit Gtopk(const Params&) {}
  std::string_view name() const override { return kName; }
  bool exact() const override { return false; }

 private:
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Delivery& out) override;

  void drop_cut(bool folds, Pieces& returned);

  MergeAndCut list_;
  HostList alive_;     // own entries of which no share has been cut yet
  HostList partners_;  // the same of the rank that is folded into this one
  HostList result_;
  HostList scratch_;
  std::vector<HostList> cuts_;  // own entries, as they were cut
  std::size_t cut_ = 0;
};

// gTop-k by a binary tree and a broadcast, as first published, made lossless: a
// rank that cuts an entry keeps what it cut if the index is in the result.
class GtopkTree final : public SparseAllreduce {
 public:
  static constexpr std::string_view kName = "gtopk-tree";
  static constexpr std::string_view kSummary =
      "k largest of pairwise sums, tree and broadcast: 4 k log2 P words";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  static Cost cost(const Workload& load, const Network& network,
                   const Rates& rates);
  explicit GtopkTree(const Params&) {}
  std::string_view name() const override { return kName; }
  bool exact() const override { return false; }

 private:
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Delivery& out) override;

  MergeAndCut list_;
  std::vector<HostList> cuts_;  // partial sums that this rank cut
  HostList result_;
  HostList scratch_;
  HostList returned_;
};

// Rows for the registry; none if the build leaves gTop-k out.
std::span<const CollectiveEntry> gtopk_collectives();

}  // namespace sluice
