#include "sluice/collective/balanced.h"

#include <algorithm>
#include <bit>

#include "sluice/collective/patterns.h"
#include "sluice/core/error.h"
#include "sluice/cost/patterns.h"

namespace sluice {
namespace {

// The union changes slowly, and counting it takes time.
constexpr std::uint64_t kRecount = 16;

constexpr std::uint32_t kPush = 1;
constexpr std::uint32_t kPull = 2;

// In bytes, which all ranks count alike whatever their clocks say.
bool direct_is_less(const Workload& x) {
  const double part = x.n / x.ranks;
  const double v = x.value_bytes;
  return x.ranks <= 2 ||
         coded_bytes(x.k, x.n, v) < coded_bytes(x.k / x.ranks, part, v) +
                                        coded_bytes(x.u / x.ranks, part);
}

}  // namespace

OwnerMap::OwnerMap(std::uint64_t n, std::size_t ranks, std::uint64_t block)
    : ranks_(ranks),
      inverse_(~std::uint64_t{0} / ranks + 1),
      shift_(static_cast<unsigned>(std::countr_zero(block))),
      mask_(static_cast<std::uint32_t>(block - 1)) {
  // One rank has no inverse in 64 bits, and nobody to share with.
  require(ranks > 1 && n <= std::uint64_t{1} << 32,
          "[balanced] the owner map needs at least 2 ranks and at most 2^32 "
          "elements, got ",
          ranks, " and ", n);
  const std::uint64_t row = ranks * block;
  length_ = (n + row - 1) / row * block;
}

void OwnerMap::forms(std::size_t owner, std::span<const SegmentForm> whole,
                     std::vector<SegmentForm>& out) const {
  out.assign(whole.begin(), whole.end());
  std::uint64_t base = 0;
  std::uint64_t local = 0;
  for (SegmentForm& form : out) {
    base += form.size;
    // The owner's first place that stands for an index of the next segment:
    // in the block's row, or at the start of the next one.
    std::uint64_t end = divide(base >> shift_) << shift_;
    while (end < length_ &&
           index(owner, static_cast<std::uint32_t>(end)) < base) {
      const std::uint64_t at = index(owner, static_cast<std::uint32_t>(end));
      end += std::min(base - at, std::uint64_t{mask_} + 1 - (end & mask_));
    }
    form = {end - local, form.values, {}};
    local = end;
  }
  out.back().size += length_ - local;
}

Cost Balanced::cost(const Workload& load, const Network& network,
                    const Rates& rates) {
  if (direct_is_less(load)) return direct_cost(load, network, rates);
  return owned_cost(load, load.u, 1, network, rates) +
         work_cost((load.k + load.u) * rates.deal);
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
  if (direct_) exchange_.commit();
}

std::vector<double> Balanced::save() const {
  return {static_cast<double>(selected_), static_cast<double>(u_),
          static_cast<double>(steps_)};
}

void Balanced::load(std::span<const double> values) {
  if (values.size() != 3 || !std::ranges::all_of(values, is_count)) return;
  selected_ = static_cast<std::uint64_t>(values[0]);
  u_ = static_cast<std::uint64_t>(values[1]);
  steps_ = static_cast<std::uint64_t>(values[2]);
  last_u_ = u_;
}

// From what all ranks know alike, or they would not meet. Owners merge lists on
// the host; by a link that way is longer than any list that it saves.
bool Balanced::choose_direct(std::uint64_t n, std::size_t ranks,
                             bool linked) const {
  if (ranks <= 2 || params_.direct == "yes") return true;
  if (params_.direct == "no") return false;
  if (linked) return true;
  if (selected_ == 0) return false;
  Workload load;
  load.n = static_cast<double>(n);
  load.ranks = static_cast<double>(ranks);
  load.k = static_cast<double>(selected_) / load.ranks;
  load.u = static_cast<double>(u_);
  return direct_is_less(load);
}

// Splits what was selected by owner.
void Balanced::partition(const OwnerMap& map, const ListView& selected,
                         std::size_t ranks) {
  lists_.resize(ranks);
  std::vector<std::size_t>& counts = counts_;
  counts.assign(ranks, 0);
  for (std::size_t i = 0; i < selected.size(); ++i) {
    ++counts[map.place(selected.indices[i]).owner];
  }
  for (std::size_t r = 0; r < ranks; ++r) lists_[r].reset(counts[r]);
  counts.assign(ranks, 0);
  for (std::size_t i = 0; i < selected.size(); ++i) {
    const OwnerMap::Place place = map.place(selected.indices[i]);
    HostList& list = lists_[place.owner];
    const std::size_t at = counts[place.owner]++;
    list.indices()[at] = place.local;
    list.values()[at] = selected.values[i];
  }
}

// Every part to its owner, who sums them.
void Balanced::push(Communicator& comm, ListCoder& coder, const OwnerMap& map,
                    std::span<const SegmentForm> forms) {
  for_others(comm, [&](std::size_t peer) {
    map.forms(peer, forms, forms_);
    Frame frame = coder.encode(comm, lists_[peer], forms_);
    comm.send(peer, kPush, frame);
  });
  map.forms(comm.rank(), forms, forms_);
  for_others(comm, [&](std::size_t peer) {
    coder.receive(comm, peer, kPush, std::span<const SegmentForm>(forms_),
                  lists_[peer]);
  });
  merge_all(lists_, scratch_);
}

// Owners' sums, with the indices that they stand for.
void Balanced::pull(Communicator& comm, ListCoder& coder, const OwnerMap& map,
                    std::uint64_t n, Pieces& sum) {
  Frame frame = coder.encode(comm, lists_[0], map.length());
  send_to_others(comm, kPull, frame);
  sums_.resize(comm.size());
  std::swap(sums_[comm.rank()], lists_[0]);
  for_others(comm, [&](std::size_t peer) {
    coder.receive(comm, peer, kPull, map.length(), sums_[peer]);
  });
  last_u_ = 0;
  for (std::size_t owner = 0; owner < comm.size(); ++owner) {
    HostList& list = sums_[owner];
    std::uint32_t* indices = list.indices();
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      last = map.index(owner, indices[i]);
      indices[i] = static_cast<std::uint32_t>(last);
    }
    // Ascending: the last is the largest.
    if (list.size() > 0 && last >= n) {
      comm.reject(owner, "an index beyond the end");
    }
    last_u_ += list.size();
    sum.lists.push_back(list.view());
  }
}

void Balanced::run(Communicator& comm, ExchangeContext& context,
                   const Contribution& mine, Delivery& out) {
  const std::size_t size = comm.size();
  const std::uint64_t n = mine.n();
  direct_ = choose_direct(n, size, context.link() != nullptr);
  if (!direct_) {
    const OwnerMap map(n, size, static_cast<std::uint64_t>(params_.block));
    partition(map, context.host_view(mine), size);
    push(comm, context.coder(), map, mine.forms);
    pull(comm, context.coder(), map, n, out.sum);
    return;
  }
  exchange_.run(comm, context, mine, out.sum);
  if (steps_ % kRecount != 0) return;
  if (context.is_host()) {
    last_u_ = count_union(out.sum.lists);
  } else {
    // Nobody asks a device for its lists to count them.
    const auto p = static_cast<double>(size);
    last_u_ = static_cast<std::uint64_t>(independent_union(
        static_cast<double>(n), static_cast<double>(selected_) / p, p));
  }
}

}  // namespace sluice
