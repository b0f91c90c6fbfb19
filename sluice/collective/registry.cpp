#include <array>
#include <vector>

#include "sluice/collective/allgather.h"
#include "sluice/collective/auto.h"
#include "sluice/collective/balanced.h"
#include "sluice/collective/cltk.h"
#include "sluice/collective/dense.h"
#include "sluice/collective/gtopk.h"
#include "sluice/collective/oktopk.h"
#include "sluice/collective/sparcml.h"
#include "sluice/collective/sparse_allreduce.h"

namespace sluice {
namespace {

constexpr std::array kCollectives = {
    registry_entry<Dense, SparseAllreduce>(),
    registry_entry<DenseBf16, SparseAllreduce>(),
    registry_entry<Allgather, SparseAllreduce>(),
    registry_entry<SparcmlRd, SparseAllreduce>(),
    registry_entry<SparcmlSplit, SparseAllreduce>(),
    registry_entry<Balanced, SparseAllreduce>(),
    registry_entry<Oktopk, SparseAllreduce>(),
    registry_entry<Cltk, SparseAllreduce>(),
    registry_entry<Auto, SparseAllreduce>(),
};

}  // namespace

std::span<const CollectiveEntry> collectives() {
  static const std::vector<CollectiveEntry> kAll = [] {
    std::vector<CollectiveEntry> all(kCollectives.begin(), kCollectives.end());
    const auto gtopk = gtopk_collectives();
    all.insert(all.end(), gtopk.begin(), gtopk.end());
    return all;
  }();
  return kAll;
}

std::unique_ptr<SparseAllreduce> make_collective(std::string_view text) {
  return make_from(collectives(), SparseAllreduce::kKind, text);
}

}  // namespace sluice
