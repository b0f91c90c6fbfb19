#include "sluice/collective/cltk.h"

#include <algorithm>
#include <cmath>

#include "sluice/collective/patterns.h"
#include "sluice/collective/ring.h"
#include "sluice/core/error.h"
#include "sluice/core/key.h"
#include "sluice/cost/patterns.h"

namespace sluice {

Cost Cltk::cost(const Workload& load, const Network& network,
                const Rates& rates) {
  // Indices alone, down a tree; then the values there, round a ring.
  const double indices = coded_bytes(load.k, load.n) - 4 * load.k;
  const double hops = std::ceil(std::log2(load.ranks));
  return hops * work_cost(message_cost(indices, network).seconds) +
         Cost{load.k * (rates.encode + rates.decode), indices} +
         ring_cost(load.k, load.value_bytes, load.ranks, network, rates);
}

void Cltk::run(Communicator& comm, ExchangeContext& context,
               const Contribution& mine, Delivery& out) {
  constexpr std::uint32_t kIndices = 0;
  constexpr std::uint32_t kValues = 1;
  const std::uint64_t n = mine.n();
  require(mine.rest.size() == mine.forms.size(),
          "[cltk] needs the residual of all ", mine.forms.size(),
          " segments to deliver what was not selected, got ", mine.rest.size());
  const std::size_t leader = mine.step % comm.size();
  const ListView selected = context.host_view(mine);
  Frame frame;
  if (comm.rank() == leader) {
    frame = context.coder().encode_indices(comm, selected.indices, n);
  }
  frame = broadcast(comm, leader, kIndices, std::move(frame));
  context.coder().decode(comm, leader, frame.payload(), n, sum_,
                         ValueForm::kOne);
  // What this rank has there: what it selected, or what stayed behind; both
  // parts where a rounded value left a remainder.
  const std::size_t count = sum_.size();
  const std::span<const std::uint32_t> indices = ListView(sum_).indices;
  const std::span<float> values(sum_.values(), count);
  context.rest_at(mine, indices, values);
  extra_.reset(count);
  extra_.shrink(copy_between(ListView(sum_).entries(), 1, kMagnitudeMask + 1,
                             extra_.out()));
  for (std::size_t i = 0; i < extra_.size(); ++i) {
    extra_.values()[i] = -extra_.values()[i];
  }
  split(selected, indices, &inside_, &outside_);
  // All of what is inside stands somewhere among the indices.
  for (std::size_t i = 0, at = 0; i < inside_.size(); ++i, ++at) {
    while (indices[at] != inside_.indices()[i]) ++at;
    values[at] += inside_.values()[i];
  }
  out.returned.lists = {outside_.view(), extra_.view()};
  out.refused = 1;
  const bool bf16 = std::all_of(
      mine.forms.begin(), mine.forms.end(),
      [](const SegmentForm& f) { return f.values == ValueForm::kBf16; });
  if (bf16) {
    rounded_.assign(sum_);
    ring_sum_bf16(comm, values, values, {rounded_.values(), count}, kValues);
    out.returned.lists.push_back(rounded_.view());
  } else {
    ring_sum(comm, values, values, kValues);
  }
  out.sum.lists.push_back(sum_.view());
}

}  // namespace sluice
