#include "sluice/collective/auto.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/collective/exchange.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 5> kCandidates = {
    "balanced", "allgather", "sparcml-rd", "sparcml-split", "dense"};

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
std::array<double, N> told(Communicator& comm, std::uint32_t phase,
                           const std::array<double, N>& mine) {
  Bytes bytes(sizeof(mine));
  std::memcpy(bytes.data(), mine.data(), sizeof(mine));
  bytes = broadcast(comm, 0, phase, std::move(bytes));
  if (bytes.size() != sizeof(mine)) comm.reject(0, "numbers of another size");
  std::array<double, N> out;
  std::memcpy(out.data(), bytes.data(), sizeof(out));
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
  const auto agreed = told<2>(
      comm, kResult,
      {small, std::max(0.0, large - small) / static_cast<double>(kBytes)});
  return {agreed[0], agreed[1]};
}

Auto::Auto(const Params& params)
    : told_{params.alpha, params.beta}, network_(told_) {
  for (const std::string_view name : kCandidates) {
    algorithms_.push_back(make_collective(name));
  }
}

std::string_view Auto::choice() const { return kCandidates[choice_]; }

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
  if (values.size() < 6) return;
  network_ = {values[0], values[1]};
  selected_ = values[2];
  u_ = values[3];
  skew_ = values[4];
  steps_ = static_cast<std::uint64_t>(values[5]);
  last_u_ = u_;
  last_skew_ = skew_;
  values = values.subspan(6);
  for (const auto& algorithm : algorithms_) {
    if (values.empty()) return;
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
  network_ = told_;
  selected_ = -1;
}

// Before the first step nobody knows what the others have selected.
void Auto::start(Communicator& comm, const Contribution& mine) {
  constexpr std::uint32_t kCount = 8;
  constexpr std::uint32_t kTotal = 9;
  if (unknown_network() != nullptr) {
    network_ = measure_network(comm, mine.step);
  }
  comm.begin(name(), mine.step);
  std::array<double, 1> total = {static_cast<double>(mine.selected.size())};
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
  selected_ = told<1>(comm, kTotal, total)[0];
}

std::size_t Auto::choose(const Exchange& exchange) const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < kCandidates.size(); ++i) {
    if (predict(kCandidates[i], exchange, network_) <
        predict(kCandidates[best], exchange, network_)) {
      best = i;
    }
  }
  return best;
}

void Auto::run(Communicator& comm, const Contribution& mine, Delivery& out) {
  if (selected_ < 0) start(comm, mine);
  Exchange exchange;
  exchange.n = static_cast<double>(mine.n);
  exchange.ranks = static_cast<double>(comm.size());
  exchange.k = selected_ / exchange.ranks;
  exchange.u =
      u_ >= 0 ? u_ : independent_union(exchange.n, exchange.k, exchange.ranks);
  exchange.skew = skew_;
  choice_ = choose(exchange);
  algorithms_[choice_]->reduce(comm, mine, out);
  // The union changes slowly, and counting it takes time.
  if (steps_ % 16 != 0) return;
  const std::vector<float>& dense = out.sum.dense;
  const auto u =
      dense.empty()
          ? count_union(out.sum.lists)
          : static_cast<std::size_t>(std::count_if(
                dense.begin(), dense.end(), [](float v) { return v != 0; }));
  last_u_ = static_cast<double>(u);
  if (dense.empty()) last_skew_ = skew_of(out.sum.lists, mine.n, comm.size());
}

}  // namespace sluice
