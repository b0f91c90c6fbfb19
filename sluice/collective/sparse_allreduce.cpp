#include "sluice/collective/sparse_allreduce.h"

#include "sluice/core/error.h"

namespace sluice {

void SparseAllreduce::reduce(Communicator& comm, ExchangeContext& context,
                             const Contribution& mine, Delivery& out) {
  std::uint64_t n = 0;
  for (const SegmentForm& form : mine.forms) n += form.size;
  require(n == mine.n() && mine.forms.size() == mine.block.segments(), "[",
          name(), "] the forms must be those of the block's ",
          mine.block.segments(), " segments with ", mine.n(), " elements, got ",
          mine.forms.size(), " with ", n);
  comm.begin(name(), mine.step);
  out.sum.clear();
  out.returned.clear();
  out.refused = 0;
  if (comm.size() > 1) {
    run(comm, context, mine, out);
    return;
  }
  out.sum.on_host = false;
  out.sum.lists.push_back(mine.block.view());
}

void DenseAllreduce::sum(Communicator& comm, std::uint64_t step,
                         std::span<const float> in, std::span<float> out,
                         std::span<float> remainders,
                         const MemoryOwner& owner) {
  comm.begin(name(), step);
  if (comm.size() > 1) {
    sum_now(comm, in, out, remainders, owner);
    return;
  }
  if (in.data() != out.data()) std::copy(in.begin(), in.end(), out.begin());
  std::fill(remainders.begin(), remainders.end(), 0.0F);
}

std::unique_ptr<Engine::Sum> DenseAllreduce::start_sum(
    Communicator& comm, std::span<float> values, const MemoryOwner& owner) {
  if (!by_engine() || comm.size() == 1) return nullptr;
  return comm.start_native_sum(values, owner);
}

void DenseAllreduce::sum_on_device(Communicator& comm, ExchangeContext& context,
                                   std::uint64_t step,
                                   std::span<const float> in,
                                   std::span<float> out,
                                   std::span<float> remainders) {
  comm.begin(name(), step);
  enqueue_sum(comm, context, in, out, remainders);
}

void DenseAllreduce::run(Communicator& comm, ExchangeContext& context,
                         const Contribution& mine, Delivery& out) {
  const ListView selected = context.host_view(mine);
  dense_.reset(mine.n());
  std::fill(dense_.begin(), dense_.end(), 0.0F);
  for (std::size_t i = 0; i < selected.size(); ++i) {
    dense_[selected.indices[i]] = selected.values[i];
  }
  remainders_.reset(rounds() ? mine.n() : 0);
  sum_now(comm, {dense_.data(), dense_.size()}, {dense_.data(), dense_.size()},
          {remainders_.data(), remainders_.size()}, {});
  out.sum.dense = {dense_.data(), dense_.size()};
  returned_.clear();
  for (std::size_t j = 0; j < remainders_.size(); ++j) {
    if (remainders_[j] == 0) continue;
    returned_.add(static_cast<std::uint32_t>(j), remainders_[j]);
  }
  out.returned.lists.push_back(returned_.view());
}

}  // namespace sluice
