#include "sluice/collective/sparse_allreduce.h"

#include "sluice/core/error.h"

namespace sluice {

void SparseAllreduce::reduce(Communicator& comm, const Contribution& mine,
                             Delivery& out) {
  const Entries& selected = mine.selected;
  require(selected.values.size() == selected.indices.size(), "[", name(),
          "] every index must have a value, got ", selected.indices.size(),
          " indices and ", selected.values.size(), " values");
  require(selected.indices.empty() || selected.indices.back() < mine.n, "[",
          name(), "] indices must be below ", mine.n, ", got ",
          selected.indices.empty() ? 0 : selected.indices.back());
  comm.begin(name(), mine.step);
  out.sum.clear();
  out.returned.clear();
  run(comm, mine, out);
}

}  // namespace sluice
