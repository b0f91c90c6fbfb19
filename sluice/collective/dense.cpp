#include "sluice/collective/dense.h"

#include "sluice/collective/patterns.h"
#include "sluice/collective/ring.h"
#include "sluice/cost/patterns.h"

namespace sluice {
namespace {

constexpr std::uint32_t kChoice = 0;
constexpr std::uint32_t kRing = 1;
// Each way is tried twice: the first time warms up.
constexpr std::uint64_t kTrials = 4;
// Elements up to which the engine's own is taken: with 4 processes on 2 cores
// of an EPYC it took 0.43 to 0.62 of the ring's time from 1k to 64k elements;
// at 1M it was 1.22 with 2 processes, 0.66 with 4 (`sluice bench collective
// --collective dense:by=ring,dense:by=native`, 2026-11-16).
constexpr std::size_t kNativeMost = std::size_t{1} << 16;

}  // namespace

Cost Dense::cost(const Workload& load, const Network& network,
                 const Rates& rates) {
  return ring_cost(load.n, 4, load.ranks, network, rates);
}

Cost DenseBf16::cost(const Workload& load, const Network& network,
                     const Rates& rates) {
  return ring_cost(load.n, 2, load.ranks, network, rates);
}

std::string_view Dense::by() const {
  if (params_.by == "ring" || params_.by == "native") return params_.by;
  return choice_ < 0 ? "" : choice_ == 1 ? "native" : "ring";
}

void Dense::commit(std::uint64_t) { ++committed_; }

std::vector<double> Dense::save() const {
  return {static_cast<double>(committed_), best_[0], best_[1],
          static_cast<double>(choice_)};
}

void Dense::load(std::span<const double> values) {
  const bool sound = values.size() == 4 && is_count(values[0]) &&
                     values[3] >= -1 && values[3] <= 1;
  if (!sound) return;
  committed_ = static_cast<std::uint64_t>(values[0]);
  best_[0] = values[1];
  best_[1] = values[2];
  choice_ = static_cast<int>(values[3]);
}

bool Dense::take_native(Communicator& comm, std::size_t n) {
  if (params_.by == "ring" || params_.by == "native") {
    return params_.by == "native";
  }
  // Kept in checkpoints, so that a run goes on with the bits it began with.
  if (choice_ >= 0) return choice_ == 1;
  if (params_.by == "auto") {
    choice_ = n <= kNativeMost ? 1 : 0;
  } else if (committed_ < kTrials) {
    return committed_ % 2 == 1;
  } else {
    // Rank 0's clock decides for all.
    const std::byte mine{best_[1] < best_[0]};
    const Frame chosen =
        broadcast(comm, 0, kChoice, frame_of(comm, {&mine, 1}));
    const auto bytes = chosen.payload();
    choice_ = bytes.size() == 1 && bytes[0] == std::byte{1} ? 1 : 0;
  }
  return choice_ == 1;
}

void Dense::sum_now(Communicator& comm, std::span<const float> in,
                    std::span<float> out, std::span<float>,
                    const MemoryOwner& owner) {
  const bool native = take_native(comm, in.size());
  const auto start = comm.now();
  const bool done = native && comm.native_sum(in, out, owner);
  if (!done) ring_sum(comm, in, out, kRing);
  if (native && !done && params_.by == "auto") choice_ = 0;
  const double seconds =
      std::chrono::duration<double>(comm.now() - start).count();
  double& best = best_[done ? 1 : 0];
  best = std::min(best, seconds);
}

void Dense::enqueue_sum(Communicator&, ExchangeContext& context,
                        std::span<const float> in, std::span<float> out,
                        std::span<float>) {
  context.link()->sum(context.stream(), in.data(), out.data(), in.size());
}

void DenseBf16::sum_now(Communicator& comm, std::span<const float> in,
                        std::span<float> out, std::span<float> remainders,
                        const MemoryOwner&) {
  ring_sum_bf16(comm, in, out, remainders, kRing);
}

// Every rank sums a range of its own, in fp32 and in the order of ranks. As
// with the ring, each rank rounds every element once: what it sends to others,
// and its own range once that is summed.
void DenseBf16::enqueue_sum(Communicator& comm, ExchangeContext& context,
                            std::span<const float> in, std::span<float> out,
                            std::span<float> remainders) {
  using Word = std::uint16_t;
  Backend& device = context.device();
  Stream& stream = context.stream();
  DeviceLink& link = *context.link();
  const std::size_t ranks = comm.size();
  const std::size_t slot = (in.size() + ranks - 1) / ranks;
  const std::size_t begin = std::min(in.size(), comm.rank() * slot);
  const std::size_t own = std::min(slot, in.size() - begin);
  context.reserve(words_, ranks * slot * sizeof(Word));
  context.reserve(incoming_, ranks * slot * sizeof(Word));
  auto* words = words_.data<Word>();
  auto* incoming = incoming_.data<Word>();
  device.narrow(stream, {in.data(), in.size(), words, remainders.data()});
  link.all_to_all(stream, words, incoming, slot * sizeof(Word));
  device.widen(stream, {.words = incoming,
                        .slots = ranks,
                        .stride = slot,
                        .n = own,
                        .own = in.data() + begin,
                        .own_slot = comm.rank(),
                        .out = out.data() + begin});
  words += comm.rank() * slot;
  device.narrow(stream,
                {out.data() + begin, own, words, remainders.data() + begin});
  link.all_gather(stream, words, incoming, slot * sizeof(Word));
  device.widen(stream, {.words = incoming, .n = out.size(), .out = out.data()});
}

}  // namespace sluice
