#include "sluice/collective/allgather.h"

#include "sluice/collective/patterns.h"
#include "sluice/core/error.h"
#include "sluice/cost/patterns.h"

namespace sluice {

Cost Allgather::cost(const Workload& load, const Network& network,
                     const Rates& rates) {
  return direct_cost(load, network, rates);
}

void DirectExchange::run(Communicator& comm, ExchangeContext& context,
                         const Contribution& mine, Pieces& sum) {
  Backend& device = context.device();
  const std::size_t size = comm.size();
  by_link_ = context.link() != nullptr;
  if (blocks_.size() != size || sizes_.data() == nullptr) {
    context.wait();
    blocks_.clear();
    for (std::size_t r = 0; r < size; ++r) {
      blocks_.emplace_back(device, mine.n(), 0, mine.forms.size());
    }
    results_ = device.allocate(size * sizeof(DecodeResult));
    host_results_ = device.allocate_host(size * sizeof(DecodeResult));
    sizes_ = device.allocate_host(size * sizeof(std::uint64_t));
  }
  if (by_link_) {
    by_slots(comm, context, mine);
  } else {
    by_frames(comm, context, mine);
  }
  device.copy_out(context.stream(),
                  {host_results_.data<std::byte>(), host_results_.bytes()},
                  results_.data());
  sum.on_host = false;
  for (std::size_t r = 0; r < size; ++r) {
    sum.lists.push_back((r == comm.rank() ? mine.block : blocks_[r]).view());
  }
}

void DirectExchange::by_frames(Communicator& comm, ExchangeContext& context,
                               const Contribution& mine) {
  constexpr std::uint32_t kLists = 0;
  Frame frame = context.encode(comm, mine);
  send_to_others(comm, kLists, frame);
  for_others(comm, [&](std::size_t peer) {
    context.decode(comm.receive(peer, kLists), mine.forms, blocks_[peer],
                   results_.data<DecodeResult>() + peer);
  });
}

// From what all ranks know alike, or they would not meet.
std::size_t DirectExchange::slot_bytes(const Contribution& mine) const {
  constexpr std::size_t kAlign = 16;
  std::size_t bytes = ExchangeContext::most_slot_bytes(mine);
  if (last_.capacity > 0 && !did_not_fit_) {
    // Densities change from step to step, and messages with them.
    const double likely = static_cast<double>(last_.bytes) *
                          static_cast<double>(mine.block.capacity()) /
                          static_cast<double>(last_.capacity);
    constexpr double kMargin = 1.25;
    constexpr std::size_t kLeast = 256;
    bytes =
        std::min(bytes, kLeast + static_cast<std::size_t>(kMargin * likely));
  }
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

void DirectExchange::by_slots(Communicator& comm, ExchangeContext& context,
                              const Contribution& mine) {
  const std::size_t slot = slot_bytes(mine);
  const std::size_t capacity = mine.block.capacity();
  now_ = {0, capacity};
  context.reserve(slots_, comm.size() * slot);
  const auto slot_of = [&](std::size_t rank) {
    return std::span(slots_.data<std::byte>() + rank * slot, slot);
  };
  const std::span<std::byte> own = slot_of(comm.rank());
  context.encode_slot(mine, own);
  context.link()->all_gather(context.stream(), own.data(), slots_.data(), slot);
  for_others(comm, [&](std::size_t peer) {
    if (blocks_[peer].capacity() < capacity) {
      context.wait();
      blocks_[peer].reserve(context.device(), capacity);
    }
    context.decode_slot(slot_of(peer), mine.forms, blocks_[peer],
                        results_.data<DecodeResult>() + peer);
  });
  for (std::size_t r = 0; r < comm.size(); ++r) {
    auto* size = sizes_.data<std::uint64_t>() + r;
    context.device().copy_out(context.stream(),
                              std::as_writable_bytes(std::span(size, 1)),
                              slot_of(r).data());
  }
}

bool DirectExchange::verify(Communicator& comm) {
  if (host_results_.data() == nullptr) return true;
  if (by_link_) {
    did_not_fit_ = false;
    for (std::size_t r = 0; r < comm.size(); ++r) {
      const std::uint64_t size = sizes_.data<std::uint64_t>()[r];
      did_not_fit_ |= size == 0;
      now_.bytes = std::max(now_.bytes, size);
    }
    if (did_not_fit_) return false;
  }
  for_others(comm, [&](std::size_t peer) {
    const WireError error = host_results_.data<DecodeResult>()[peer].error;
    if (error == WireError::kNone) return;
    comm.reject(
        peer, concat("a block that failed the check of its ", describe(error)));
  });
  return true;
}

void DirectExchange::commit() { last_ = now_; }

void DirectExchange::roll_back() {
  did_not_fit_ = false;
  now_ = {};
}

}  // namespace sluice
