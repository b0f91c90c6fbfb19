#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

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

  explicit Gtopk(const Params&) {}
  std::string_view name() const override { return kName; }
  bool exact() const override { return false; }

 private:
  void run(Communicator& comm, const Contribution& mine,
           Delivery& out) override;
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

  explicit GtopkTree(const Params&) {}
  std::string_view name() const override { return kName; }
  bool exact() const override { return false; }

 private:
  void run(Communicator& comm, const Contribution& mine,
           Delivery& out) override;
};

// Rows for the registry; none if the build leaves gTop-k out.
std::span<const CollectiveEntry> gtopk_collectives();

}  // namespace sluice
