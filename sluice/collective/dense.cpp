#include "sluice/collective/dense.h"

#include "sluice/collective/exchange.h"
#include "sluice/collective/ring.h"

namespace sluice {
namespace {

constexpr std::uint32_t kChoice = 0;
constexpr std::uint32_t kRing = 1;
// Each way is tried twice: the first time warms up.
constexpr std::uint64_t kTrials = 4;

void spread(const Entries& entries, std::uint64_t n,
            std::vector<float>& dense) {
  dense.assign(n, 0.0F);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    dense[entries.indices[i]] = entries.values[i];
  }
}

}  // namespace

std::string_view Dense::by() const {
  if (params_.by != "auto") return params_.by;
  return choice_ < 0 ? "" : choice_ == 1 ? "native" : "ring";
}

void Dense::commit(std::uint64_t) { ++committed_; }

std::vector<double> Dense::save() const {
  return {static_cast<double>(committed_), best_[0], best_[1],
          static_cast<double>(choice_)};
}

void Dense::load(std::span<const double> values) {
  if (values.size() != 4) return;
  committed_ = static_cast<std::uint64_t>(values[0]);
  best_[0] = values[1];
  best_[1] = values[2];
  choice_ = static_cast<int>(values[3]);
}

// Rank 0's clock decides for all.
bool Dense::take_native(Communicator& comm) {
  if (params_.by != "auto") return params_.by == "native";
  if (committed_ < kTrials) return committed_ % 2 == 1;
  if (choice_ < 0) {
    const Bytes told =
        broadcast(comm, 0, kChoice, {std::byte{best_[1] < best_[0]}});
    choice_ = told.size() == 1 && told[0] == std::byte{1} ? 1 : 0;
  }
  return choice_ == 1;
}

void Dense::sum_now(Communicator& comm, std::span<float> values) {
  if (comm.size() == 1) return;
  const bool native = take_native(comm);
  const auto start = comm.now();
  const bool done = native && comm.native_sum(values);
  if (!done) ring_sum(comm, values, kRing);
  const double seconds =
      std::chrono::duration<double>(comm.now() - start).count();
  double& best = best_[done ? 1 : 0];
  best = std::min(best, seconds);
}

void Dense::sum(Communicator& comm, std::uint64_t step,
                std::span<float> values) {
  comm.begin(name(), step);
  sum_now(comm, values);
}

void Dense::run(Communicator& comm, const Contribution& mine, Delivery& out) {
  spread(mine.selected, mine.n, out.sum.dense);
  sum_now(comm, out.sum.dense);
}

void DenseBf16::sum(Communicator& comm, std::uint64_t step,
                    std::span<float> values, std::span<float> remainders) {
  comm.begin(kName, step);
  ring_sum_bf16(comm, values, remainders, kRing);
}

void DenseBf16::run(Communicator& comm, const Contribution& mine,
                    Delivery& out) {
  spread(mine.selected, mine.n, out.sum.dense);
  out.returned.dense.assign(mine.n, 0.0F);
  ring_sum_bf16(comm, out.sum.dense, out.returned.dense, kRing);
}

}  // namespace sluice
