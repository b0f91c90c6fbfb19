#pragma once

#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// k indices drawn from (seed, tensor, step), alike on all ranks, each of which
// sends those where it has something. See core/permutation.h for the generator.
class Randomk final : public SparsifierOf<Randomk> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "randomk";
  static constexpr std::string_view kSummary =
      "k random indices, drawn alike on all ranks";

 private:
  void choose(const Shape3&, SegmentTask& task) const override {
    task.kind = SelectKind::kListed;
    task.capacity = task.facts.k;
  }
};

}  // namespace sluice
