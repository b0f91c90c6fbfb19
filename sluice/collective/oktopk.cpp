#include "sluice/collective/oktopk.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "sluice/collective/exchange.h"
#include "sluice/collective/ranked.h"

namespace sluice {
namespace {

constexpr std::uint32_t kBounds = 0;
constexpr std::uint32_t kPush = 1;
constexpr std::uint32_t kSizes = 2;
constexpr std::uint32_t kLevel = 3;
constexpr std::uint32_t kGather = 4;

std::uint64_t share(std::uint64_t whole, std::size_t part, std::size_t parts) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(whole) *
                                    part / parts);
}

// Everybody's numbers, by rank.
std::vector<std::vector<std::uint64_t>> gather_numbers(
    Communicator& comm, std::uint32_t phase,
    const std::vector<std::uint64_t>& mine) {
  send_to_others(comm, phase, std::as_bytes(std::span(mine)));
  std::vector<std::vector<std::uint64_t>> all(comm.size(), mine);
  for_others(comm, [&](std::size_t peer) {
    const auto bytes = comm.receive(peer, phase);
    const auto out = std::as_writable_bytes(std::span(all[peer]));
    if (bytes.size() != out.size()) {
      comm.reject(peer, "another number of numbers than was due");
    }
    std::copy(bytes.begin(), bytes.end(), out.begin());
  });
  return all;
}

void append(const Entries& from, std::uint64_t offset, Entries& to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    to.add(static_cast<std::uint32_t>(from.indices[i] + offset),
           from.values[i]);
  }
}

// Entries number begin to end.
Entries cut(const Entries& from, std::size_t begin, std::size_t end) {
  Entries out;
  for (std::size_t i = begin; i < end; ++i) {
    out.add(from.indices[i], from.values[i]);
  }
  return out;
}

}  // namespace

ParamList Oktopk::list(Params& p) {
  return {{"tau", &p.tau, "steps between new regions", 1, 1e9},
          {"tau_prime", &p.tau_prime, "steps between exact thresholds", 1, 1e9},
          {"low", &p.low, "lower the threshold below this many times k", 0, 1},
          {"high", &p.high, "raise it above this many times k", 1, 1e9},
          {"lower", &p.lower, "divide the threshold by this", 1, 1e9},
          {"raise", &p.raise, "multiply it by this", 1, 1e9},
          {"balance", &p.balance,
           "level the sums out before they go to all if a rank has this many "
           "times the average",
           1, 1e9},
          {"cap", &p.cap, "most entries delivered, in multiples of k", 1, 1e9}};
}

void Oktopk::commit(std::uint64_t) {
  state_ = next_;
  ++state_.step;
}

std::vector<double> Oktopk::save() const {
  std::vector<double> out = {static_cast<double>(state_.step),
                             state_.threshold};
  out.insert(out.end(), state_.bounds.begin(), state_.bounds.end());
  return out;
}

void Oktopk::load(std::span<const double> values) {
  if (values.size() < 2) return;
  state_.step = static_cast<std::uint64_t>(values[0]);
  state_.threshold = values[1];
  state_.bounds.clear();
  for (const double b : values.subspan(2)) {
    state_.bounds.push_back(static_cast<std::uint64_t>(b));
  }
}

// Boundaries that split this rank's entries evenly, averaged over the ranks.
void Oktopk::make_regions(Communicator& comm, const Contribution& mine) {
  const std::size_t size = comm.size();
  const auto& indices = mine.selected.indices;
  std::vector<std::uint64_t> own(size - 1);
  for (std::size_t i = 1; i < size; ++i) {
    own[i - 1] = indices.empty() ? share(mine.n, i, size)
                                 : indices[share(indices.size(), i, size)];
  }
  next_.bounds.assign(size + 1, 0);
  for (const auto& theirs : gather_numbers(comm, kBounds, own)) {
    for (std::size_t i = 1; i < size; ++i) next_.bounds[i] += theirs[i - 1];
  }
  for (std::size_t i = 1; i < size; ++i) {
    next_.bounds[i] = std::min(next_.bounds[i] / size, mine.n);
  }
  next_.bounds[size] = mine.n;
  if (!std::is_sorted(next_.bounds.begin(), next_.bounds.end())) {
    comm.reject((comm.rank() + 1) % size, "boundaries out of order");
  }
}

// Split and reduce: mine_ becomes the sums of this rank's region. Returns the
// largest k of all ranks.
std::uint64_t Oktopk::sum_regions(Communicator& comm,
                                  const Contribution& mine) {
  const std::vector<std::uint64_t>& b = next_.bounds;
  const std::size_t me = comm.rank();
  lists_.resize(comm.size());
  for_others(comm, [&](std::size_t peer) {
    send_ranked(comm, peer, kPush,
                {slice(mine.selected, b[peer], b[peer + 1]), mine.k},
                b[peer + 1] - b[peer]);
  });
  lists_[me] = slice(mine.selected, b[me], b[me + 1]);
  std::uint64_t k = mine.k;
  for_others(comm, [&](std::size_t peer) {
    Ranked got;
    receive_ranked(comm, peer, kPush, b[me + 1] - b[me], got);
    lists_[peer] = std::move(got.entries);
    k = std::max(k, got.k);
  });
  merge_all(lists_, scratch_);
  mine_.clear();
  append(lists_[0], b[me], mine_);
  return std::min(k, mine.n);
}

// mine_ of every rank, in rank order, which is the order of indices.
void Oktopk::gather(Communicator& comm, bool by_region, std::uint64_t n,
                    Entries& out) {
  const std::vector<std::uint64_t>& b = next_.bounds;
  const auto begin = [&](std::size_t r) { return by_region ? b[r] : 0; };
  const auto end = [&](std::size_t r) { return by_region ? b[r + 1] : n; };
  const std::size_t me = comm.rank();
  send_to_others(comm, kGather,
                 encode(slice(mine_, begin(me), end(me)), end(me) - begin(me)));
  for_others(comm, [&](std::size_t peer) {
    receive_entries(comm, peer, kGather, end(peer) - begin(peer), lists_[peer]);
  });
  lists_[me] = slice(mine_, begin(me), end(me));
  out.clear();
  for (std::size_t r = 0; r < comm.size(); ++r) {
    append(lists_[r], begin(r), out);
  }
}

void Oktopk::deliver_exactly(Communicator& comm, std::uint64_t k,
                             Entries& sum) {
  Entries all;
  gather(comm, true, 0, all);
  sum = largest(all, k);
  next_.threshold = sum.size() == 0 ? 0.0 : 1e300;
  for (const float v : sum.values) {
    next_.threshold = std::min(next_.threshold, std::abs(double(v)));
  }
}

// Cuts mine_ to its share of the cap; what every rank then has.
std::vector<std::uint64_t> Oktopk::agree_on_sizes(Communicator& comm,
                                                  std::uint64_t k) {
  std::vector<std::uint64_t> sizes;
  for (const auto& theirs : gather_numbers(comm, kSizes, {mine_.size()})) {
    sizes.push_back(theirs[0]);
  }
  const auto total = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  const double most = std::floor(params_.cap * static_cast<double>(k));
  if (total > most) {
    for (std::uint64_t& s : sizes) {
      s = static_cast<std::uint64_t>(static_cast<double>(s) * (most / total));
    }
    mine_ = largest(mine_, sizes[comm.rank()]);
  }
  return sizes;
}

// Moves entries so that every rank has as many to tell; ranks keep their order.
void Oktopk::level(Communicator& comm, std::uint64_t n,
                   const std::vector<std::uint64_t>& sizes) {
  const std::size_t size = comm.size();
  std::vector<std::uint64_t> starts(size + 1, 0);
  std::partial_sum(sizes.begin(), sizes.end(), starts.begin() + 1);
  // What rank a has of what rank b is to tell, as positions in all.
  const auto overlap = [&](std::size_t a, std::size_t b) {
    return std::pair(std::max(starts[a], share(starts[size], b, size)),
                     std::min(starts[a + 1], share(starts[size], b + 1, size)));
  };
  const std::size_t me = comm.rank();
  const auto own = [&](std::size_t peer) {
    const auto [begin, end] = overlap(me, peer);
    return begin < end ? cut(mine_, begin - starts[me], end - starts[me])
                       : Entries{};
  };
  for_others(comm, [&](std::size_t peer) {
    const auto [begin, end] = overlap(me, peer);
    if (begin < end) comm.send(peer, kLevel, encode(own(peer), n));
  });
  lists_[me] = own(me);
  for_others(comm, [&](std::size_t peer) {
    const auto [begin, end] = overlap(peer, me);
    lists_[peer].clear();
    if (begin < end) receive_entries(comm, peer, kLevel, n, lists_[peer]);
  });
  mine_.clear();
  for (const Entries& list : lists_) append(list, 0, mine_);
}

void Oktopk::deliver_above(Communicator& comm, std::uint64_t n, std::uint64_t k,
                           Entries& sum) {
  Entries picked;
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    if (std::abs(double(mine_.values[i])) >= next_.threshold) {
      picked.add(mine_.indices[i], mine_.values[i]);
    }
  }
  mine_ = std::move(picked);
  const std::vector<std::uint64_t> sizes = agree_on_sizes(comm, k);
  const auto total = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  const auto most =
      static_cast<double>(*std::max_element(sizes.begin(), sizes.end()));
  const bool skewed =
      most * static_cast<double>(comm.size()) > params_.balance * total;
  if (skewed) level(comm, n, sizes);
  gather(comm, !skewed, n, sum);
  const double wanted = static_cast<double>(k);
  if (total < params_.low * wanted) next_.threshold /= params_.lower;
  if (total > params_.high * wanted) next_.threshold *= params_.raise;
}

void Oktopk::run(Communicator& comm, const Contribution& mine, Delivery& out) {
  next_ = state_;
  const auto every = [&](std::int64_t steps) {
    return state_.step % static_cast<std::uint64_t>(steps) == 0;
  };
  if (every(params_.tau) || next_.bounds.back() != mine.n ||
      next_.bounds.size() != comm.size() + 1) {
    make_regions(comm, mine);
  }
  const std::uint64_t k = sum_regions(comm, mine);
  out.sum.lists.resize(1);
  if (every(params_.tau_prime)) {
    deliver_exactly(comm, k, out.sum.lists[0]);
  } else {
    deliver_above(comm, mine.n, k, out.sum.lists[0]);
  }
  out.returned.lists.resize(1);
  out.returned.lists[0] = outside(mine.selected, out.sum.lists[0].indices);
}

}  // namespace sluice
