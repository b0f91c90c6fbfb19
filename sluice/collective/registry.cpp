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
    collective_entry<Dense>(),        collective_entry<DenseBf16>(),
    collective_entry<Allgather>(),    collective_entry<SparcmlRd>(),
    collective_entry<SparcmlSplit>(), collective_entry<Balanced>(),
    collective_entry<Oktopk>(),       collective_entry<Cltk>(),
    collective_entry<Auto>(),
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

std::span<const CostRow> collective_costs() {
  static const std::vector<CostRow> kRows = [] {
    std::vector<CostRow> rows;
    for (const CollectiveEntry& entry : collectives()) {
      const auto one = entry.make({std::string(entry.name), {}});
      rows.push_back(
          {entry.name, entry.cost, one->exact(), one->as_dense() != nullptr,
           one->carries(ValueForm::kBf16), one->carries(ValueForm::kFp16)});
    }
    return rows;
  }();
  return kRows;
}

std::unique_ptr<SparseAllreduce> make_collective(std::string_view text) {
  return make_from(collectives(), SparseAllreduce::kKind, text);
}

}  // namespace sluice
