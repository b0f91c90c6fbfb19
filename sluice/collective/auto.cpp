#include "sluice/collective/auto.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/collective/allgather.h"
#include "sluice/collective/balanced.h"
#include "sluice/collective/dense.h"
#include "sluice/collective/patterns.h"
#include "sluice/collective/sparcml.h"

namespace sluice {
namespace {

// Of equals the first: allgather is what balanced does where it goes direct.
constexpr std::array kCandidates = {
    collective_entry<Allgather>(), collective_entry<Balanced>(),
    collective_entry<SparcmlRd>(), collective_entry<SparcmlSplit>(),
    collective_entry<Dense>()};

std::size_t cheapest(const Workload& load, const Network& network,
                     const Rates& rates) {
  std::size_t best = 0;
  double least = kCandidates[0].cost(load, network, rates).seconds;
  for (std::size_t i = 1; i < kCandidates.size(); ++i) {
    const double seconds = kCandidates[i].cost(load, network, rates).seconds;
    if (seconds >= least) continue;
    best = i;
    least = seconds;
  }
  return best;
}

// Median seconds of a ring shift of `bytes` by all ranks at once.
double time_shift(Communicator& comm, std::size_t bytes, std::size_t times,
                  std::uint32_t phase) {
  const std::size_t size = comm.size();
  const Bytes payload(bytes);
  std::vector<double> seconds(times);
  for (double& s : seconds) {
    const auto start = comm.now();
    comm.send((comm.rank() + 1) % size, phase, payload);
    comm.receive((comm.rank() + size - 1) % size, phase);
    s = std::chrono::duration<double>(comm.now() - start).count();
  }
  std::nth_element(seconds.begin(), seconds.begin() + times / 2, seconds.end());
  return seconds[times / 2];
}

// Rank 0's numbers.
template <std::size_t N>
std::array<double, N> broadcast_numbers(Communicator& comm, std::uint32_t phase,
                                        const std::array<double, N>& mine) {
  const Frame frame =
      broadcast(comm, 0, phase, frame_of(comm, std::as_bytes(std::span(mine))));
  std::array<double, N> out;
  if (frame.payload().size() != sizeof(out)) {
    comm.reject(0, "numbers of another size");
  }
  std::memcpy(out.data(), frame.payload().data(), sizeof(out));
  return out;
}

}  // namespace

Network measure_network(Communicator& comm, std::uint64_t step) {
  constexpr std::uint32_t kSmall = 0;
  constexpr std::uint32_t kLarge = 1;
  constexpr std::uint32_t kResult = 2;
  constexpr std::size_t kBytes = 1 << 18;
  if (comm.size() == 1) return {};
  comm.begin("measure", step);
  const double small = time_shift(comm, 8, 15, kSmall);
  const double large = time_shift(comm, kBytes, 7, kLarge);
  const auto agreed = broadcast_numbers<2>(
      comm, kResult,
      {small, std::max(0.0, large - small) / static_cast<double>(kBytes)});
  return {agreed[0], agreed[1]};
}

Cost Auto::cost(const Workload& load, const Network& network,
                const Rates& rates) {
  return kCandidates[cheapest(load, network, rates)].cost(load, network, rates);
}

Auto::Auto(const Params& params)
    : given_{params.alpha, params.beta}, network_(given_) {
  for (const CollectiveEntry& entry : kCandidates) {
    algorithms_.push_back(entry.make({std::string(entry.name), {}}));
  }
}

std::string_view Auto::choice() const { return kCandidates[choice_].name; }

void Auto::commit(std::uint64_t selected) {
  algorithms_[choice_]->commit(selected);
  selected_ = static_cast<double>(selected);
  u_ = last_u_;
  skew_ = last_skew_;
  ++steps_;
}

std::vector<double> Auto::save() const {
  std::vector<double> out = {network_.alpha, network_.beta,
                             selected_,      u_,
                             skew_,          static_cast<double>(steps_)};
  for (const auto& algorithm : algorithms_) {
    const std::vector<double> part = algorithm->save();
    out.push_back(static_cast<double>(part.size()));
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

void Auto::load(std::span<const double> values) {
  if (values.size() < 6 || !is_count(values[5])) return;
  network_ = {values[0], values[1]};
  selected_ = values[2];
  u_ = values[3];
  skew_ = values[4];
  steps_ = static_cast<std::uint64_t>(values[5]);
  last_u_ = u_;
  last_skew_ = skew_;
  values = values.subspan(6);
  for (const auto& algorithm : algorithms_) {
    if (values.empty() || !is_count(values[0])) return;
    const auto size = static_cast<std::size_t>(values[0]);
    values = values.subspan(1);
    if (size > values.size()) return;
    algorithm->load(values.first(size));
    values = values.subspan(size);
  }
}

void Auto::roll_back() {
  algorithms_[choice_]->roll_back();
  if (steps_ > 0) return;
  // The first step may have come further here than elsewhere.
  network_ = given_;
  selected_ = -1;
}

// Before the first step nobody knows what the others have selected.
void Auto::start(Communicator& comm, ExchangeContext& context,
                 const Contribution& mine) {
  constexpr std::uint32_t kCount = 8;
  constexpr std::uint32_t kTotal = 9;
  if (unknown_network() != nullptr) {
    network_ = measure_network(comm, mine.step);
  }
  comm.begin(name(), mine.step);
  std::array<double, 1> total = {
      static_cast<double>(context.host_view(mine).size())};
  if (comm.rank() != 0) {
    comm.send(0, kCount, std::as_bytes(std::span(total)));
  } else {
    for (std::size_t r = 1; r < comm.size(); ++r) {
      const auto bytes = comm.receive(r, kCount);
      double theirs = 0;
      if (bytes.size() != sizeof(theirs)) comm.reject(r, "no count");
      std::memcpy(&theirs, bytes.data(), sizeof(theirs));
      total[0] += theirs;
    }
  }
  selected_ = broadcast_numbers<1>(comm, kTotal, total)[0];
}

// The union changes slowly, and counting it takes time. A device is not asked
// for what it holds: its ranks expect that supports are independent.
void Auto::learn(const ExchangeContext& context, const Pieces& sum,
                 std::uint64_t n, std::size_t ranks) {
  if (steps_ % 16 != 0) return;
  if (!sum.on_host && !context.is_host()) {
    last_u_ = -1;
    return;
  }
  const std::span<const float> dense = sum.dense;
  const auto u =
      dense.empty()
          ? count_union(sum.lists)
          : static_cast<std::size_t>(std::count_if(
                dense.begin(), dense.end(), [](float v) { return v != 0; }));
  last_u_ = static_cast<double>(u);
  if (dense.empty()) last_skew_ = skew_of(sum.lists, n, ranks);
}

void Auto::run(Communicator& comm, ExchangeContext& context,
               const Contribution& mine, Delivery& out) {
  if (selected_ < 0) start(comm, context, mine);
  Workload load;
  load.n = static_cast<double>(mine.n());
  load.ranks = static_cast<double>(comm.size());
  load.k = selected_ / load.ranks;
  load.u = u_ >= 0 ? u_ : independent_union(load.n, load.k, load.ranks);
  load.skew = skew_;
  choice_ = cheapest(load, network_, {});
  algorithms_[choice_]->reduce(comm, context, mine, out);
  learn(context, out.sum, mine.n(), comm.size());
}

}  // namespace sluice
