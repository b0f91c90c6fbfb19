#include "sluice/collective/balanced.h"

#include <bit>

#include "sluice/collective/allgather.h"
#include "sluice/collective/exchange.h"
#include "sluice/core/error.h"
#include "sluice/cost/model.h"

namespace sluice {
namespace {

// The union changes slowly, and counting it takes time.
constexpr std::uint64_t kRecount = 16;

constexpr std::uint32_t kPush = 1;
constexpr std::uint32_t kPull = 2;

}  // namespace

OwnerMap::OwnerMap(std::uint64_t n, std::size_t ranks, std::uint64_t block)
    : ranks_(ranks),
      inverse_(~std::uint64_t{0} / ranks + 1),
      shift_(static_cast<unsigned>(std::countr_zero(block))),
      mask_(static_cast<std::uint32_t>(block - 1)) {
  // One rank has no inverse in 64 bits, and nobody to deal to.
  require(ranks > 1 && n < std::uint64_t{1} << 32,
          "[balanced] the owner map needs at least 2 ranks and fewer than 2^32 "
          "elements, got ",
          ranks, " and ", n);
  const std::uint64_t row = ranks * block;
  length_ = (n + row - 1) / row * block;
}

Balanced::Balanced(const Params& params) : params_(params) {
  const auto block = static_cast<std::uint64_t>(params.block);
  require(std::has_single_bit(block),
          "[balanced] block must be a power of two, got ", params.block);
}

void Balanced::commit(std::uint64_t selected) {
  selected_ = selected;
  u_ = last_u_;
  ++steps_;
}

std::vector<double> Balanced::save() const {
  return {static_cast<double>(selected_), static_cast<double>(u_),
          static_cast<double>(steps_)};
}

void Balanced::load(std::span<const double> values) {
  if (values.size() != 3) return;
  selected_ = static_cast<std::uint64_t>(values[0]);
  u_ = static_cast<std::uint64_t>(values[1]);
  steps_ = static_cast<std::uint64_t>(values[2]);
  last_u_ = u_;
}

// From what all ranks know alike, or they would not meet.
bool Balanced::choose_direct(std::uint64_t n, std::size_t ranks) const {
  if (ranks <= 2 || params_.direct == "yes") return true;
  if (params_.direct == "no" || selected_ == 0) return false;
  const auto p = static_cast<double>(ranks);
  const double k = static_cast<double>(selected_) / p;
  const double part = static_cast<double>(n) / p;
  return coded_bytes(k, static_cast<double>(n)) <
         coded_bytes(k / p, part) +
             coded_bytes(static_cast<double>(u_) / p, part);
}

// Splits what was selected by owner. Counts first, so that nothing grows.
void Balanced::deal(const OwnerMap& map, const Entries& selected,
                    std::size_t ranks) {
  places_.resize(selected.size());
  std::vector<std::size_t> counts(ranks, 0);
  for (std::size_t i = 0; i < selected.size(); ++i) {
    places_[i] = map.place(selected.indices[i]);
    ++counts[places_[i].owner];
  }
  for (std::size_t r = 0; r < ranks; ++r) lists_[r].resize(counts[r]);
  counts.assign(ranks, 0);
  for (std::size_t i = 0; i < selected.size(); ++i) {
    Entries& list = lists_[places_[i].owner];
    const std::size_t at = counts[places_[i].owner]++;
    list.indices[at] = places_[i].local;
    list.values[at] = selected.values[i];
  }
}

// Owners' sums, with the indices that they stand for.
void Balanced::pull(Communicator& comm, const OwnerMap& map, std::uint64_t n,
                    Pieces& sum) {
  send_to_others(comm, kPull, encode_filled(lists_[0], map.length()));
  sum.lists.resize(comm.size());
  std::swap(sum.lists[comm.rank()], lists_[0]);
  for_others(comm, [&](std::size_t peer) {
    receive_entries(comm, peer, kPull, map.length(), sum.lists[peer]);
  });
  for (std::size_t owner = 0; owner < comm.size(); ++owner) {
    Entries& list = sum.lists[owner];
    // Ascending, and only the last block's row may reach beyond the end: a
    // list that went dense has zeros there.
    for (std::uint32_t& j : list.indices) {
      const std::uint64_t index = map.index(owner, j);
      j = static_cast<std::uint32_t>(std::min(index, n));
    }
    std::size_t count = list.size();
    while (count > 0 && list.indices[count - 1] >= n) --count;
    for (std::size_t i = count; i < list.size(); ++i) {
      if (list.values[i] != 0) comm.reject(owner, "an index beyond the end");
    }
    list.resize(count);
  }
}

void Balanced::run(Communicator& comm, const Contribution& mine,
                   Delivery& out) {
  const std::size_t size = comm.size();
  direct_ = choose_direct(mine.n, size);
  if (direct_) {
    exchange_directly(comm, mine, out.sum);
  } else {
    const OwnerMap map(mine.n, size, static_cast<std::uint64_t>(params_.block));
    lists_.resize(size);
    deal(map, mine.selected, size);
    for_others(comm, [&](std::size_t peer) {
      comm.send(peer, kPush,
                encode_filled(lists_[peer], map.length(), mine.values));
    });
    for_others(comm, [&](std::size_t peer) {
      receive_entries(comm, peer, kPush, map.length(), lists_[peer]);
    });
    merge_all(lists_, scratch_);
    pull(comm, map, mine.n, out.sum);
  }
  if (!direct_) {
    last_u_ = out.sum.size();
  } else if (steps_ % kRecount == 0) {
    last_u_ = count_union(out.sum.lists);
  }
}

}  // namespace sluice
