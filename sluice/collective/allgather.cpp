#include "sluice/collective/allgather.h"

#include "sluice/collective/patterns.h"
#include "sluice/core/error.h"

namespace sluice {

void DirectExchange::run(Communicator& comm, ExchangeContext& context,
                         const Contribution& mine, Pieces& sum) {
  constexpr std::uint32_t kLists = 0;
  Backend& device = context.device();
  const std::size_t size = comm.size();
  if (blocks_.size() != size) {
    blocks_.clear();
    for (std::size_t r = 0; r < size; ++r) {
      blocks_.emplace_back(device, mine.n(), 0, mine.forms.size());
    }
    results_ = device.allocate(size * sizeof(DecodeResult));
    host_results_ = device.allocate_host(size * sizeof(DecodeResult));
  }
  Frame frame = context.encode(comm, mine);
  send_to_others(comm, kLists, frame);
  auto* results = results_.data<DecodeResult>();
  for_others(comm, [&](std::size_t peer) {
    context.decode(comm.receive(peer, kLists), mine.forms, blocks_[peer],
                   results + peer);
  });
  device.copy_out(context.stream(),
                  {host_results_.data<std::byte>(), host_results_.bytes()},
                  results);
  sum.on_host = false;
  for (std::size_t r = 0; r < size; ++r) {
    sum.lists.push_back((r == comm.rank() ? mine.block : blocks_[r]).view());
  }
}

void DirectExchange::verify(Communicator& comm) const {
  if (host_results_.data() == nullptr) return;
  for_others(comm, [&](std::size_t peer) {
    const WireError error = host_results_.data<DecodeResult>()[peer].error;
    if (error == WireError::kNone) return;
    comm.reject(
        peer, concat("a block that failed the check of its ", describe(error)));
  });
}

}  // namespace sluice
