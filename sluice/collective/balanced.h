#pragma once

#include "sluice/collective/sparse_allreduce.h"

namespace sluice {

// Which rank sums an index, and where in that rank's list it stands.
//
// owner(j) = (j + hash(j / P)) mod P, local(j) = j / P: one index of every P in
// a row to each rank, in an order that a hash turns from row to row. Keeps the
// order of indices, needs no table and inverts; hot columns and hot blocks
// alike spread evenly.
class OwnerMap {
 public:
  OwnerMap(std::uint64_t n, std::size_t ranks) : n_(n), ranks_(ranks) {}

  std::size_t owner(std::uint64_t j) const {
    return static_cast<std::size_t>((j + turn(j / ranks_)) % ranks_);
  }
  std::uint64_t local(std::uint64_t j) const { return j / ranks_; }
  // Length of every rank's list; the last place of some may be no index.
  std::uint64_t length() const { return (n_ + ranks_ - 1) / ranks_; }
  // The inverse; n or more if there is no such index.
  std::uint64_t index(std::size_t owner, std::uint64_t local) const {
    return local * ranks_ + (owner + ranks_ - turn(local) % ranks_) % ranks_;
  }

 private:
  static std::uint64_t turn(std::uint64_t row);

  std::uint64_t n_;
  std::uint64_t ranks_;
};

// Balanced reduce-scatter and all-gather (after ZEN, OSDI'25): every index has
// an owner that sums it; the exact sum, near the fewest bytes possible,
// whatever the supports. Two ranks exchange their lists directly.
class Balanced final : public SparseAllreduce {
 public:
  static constexpr std::string_view kName = "balanced";
  static constexpr std::string_view kSummary =
      "exact sum by hashed owners: (k + u)(P - 1) / P entries, evenly spread";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit Balanced(const Params&) {}
  std::string_view name() const override { return kName; }

 private:
  void run(Communicator& comm, const Contribution& mine, std::span<float> sum,
           Entries& returned) override;
};

}  // namespace sluice
