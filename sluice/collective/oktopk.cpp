#include "sluice/collective/oktopk.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sluice/collective/patterns.h"
#include "sluice/core/key.h"
#include "sluice/cost/patterns.h"

namespace sluice {
namespace {

constexpr std::uint32_t kBounds = 0;
constexpr std::uint32_t kRegions = 1;
constexpr std::uint32_t kSizes = 2;
constexpr std::uint32_t kLevel = 3;
constexpr std::uint32_t kGather = 4;

std::uint64_t share(std::uint64_t whole, std::size_t part, std::size_t parts) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(whole) *
                                    part / parts);
}

// Everybody's numbers, one rank's after another.
void gather_numbers(Communicator& comm, std::uint32_t phase,
                    std::span<const std::uint64_t> mine,
                    std::vector<std::uint64_t>& all) {
  Frame frame = frame_of(comm, std::as_bytes(mine));
  send_to_others(comm, phase, frame);
  all.resize(comm.size() * mine.size());
  const auto of = [&](std::size_t rank) {
    return std::span(all).subspan(rank * mine.size(), mine.size());
  };
  std::copy(mine.begin(), mine.end(), of(comm.rank()).begin());
  for_others(comm, [&](std::size_t peer) {
    const auto bytes = comm.receive(peer, phase);
    const auto out = std::as_writable_bytes(of(peer));
    if (bytes.size() != out.size()) {
      comm.reject(peer, "another number of numbers than was due");
    }
    std::copy(bytes.begin(), bytes.end(), out.begin());
  });
}

// Entries number begin to end.
ListView cut(const ListView& from, std::size_t begin, std::size_t end) {
  return {from.indices.subspan(begin, end - begin),
          from.values.subspan(begin, end - begin)};
}

}  // namespace

Cost Oktopk::cost(const Workload& load, const Network& network,
                  const Rates& rates) {
  const Params usual;
  const double others = load.ranks - 1;
  const double exact = 1 / static_cast<double>(usual.tau_prime);
  const double regions = 1 / static_cast<double>(usual.tau);
  constexpr double kNumber = 56;  // bytes of a message of one
  const Cost sizes = others * message_cost(kNumber, network);
  const Cost bounds = others * message_cost(kNumber + 8 * load.ranks, network);
  return (1 - exact) * (owned_cost(load, load.k, 1, network, rates) + sizes) +
         exact * owned_cost(load, load.u, 1, network, rates) + regions * bounds;
}

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
  if (values.size() < 2 || !std::ranges::all_of(values, is_count)) return;
  state_.step = static_cast<std::uint64_t>(values[0]);
  state_.threshold = values[1];
  state_.bounds.clear();
  for (const double b : values.subspan(2)) {
    state_.bounds.push_back(static_cast<std::uint64_t>(b));
  }
}

// Whether the regions are of so many ranks and elements; a checkpoint may say
// anything.
bool Oktopk::fits(std::size_t ranks, std::uint64_t n) const {
  const std::vector<std::uint64_t>& b = next_.bounds;
  return b.size() == ranks + 1 && b.front() == 0 && b.back() == n &&
         std::is_sorted(b.begin(), b.end());
}

// Boundaries that split this rank's entries evenly, averaged over the ranks.
void Oktopk::make_regions(Communicator& comm, const ListView& selected,
                          std::uint64_t n) {
  const std::size_t size = comm.size();
  const auto& indices = selected.indices;
  std::vector<std::uint64_t>& own = starts_;
  own.resize(size - 1);
  for (std::size_t i = 1; i < size; ++i) {
    own[i - 1] = indices.empty() ? share(n, i, size)
                                 : indices[share(indices.size(), i, size)];
  }
  next_.bounds.assign(size + 1, 0);
  gather_numbers(comm, kBounds, own, numbers_);
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    next_.bounds[1 + i % (size - 1)] += numbers_[i];
  }
  for (std::size_t i = 1; i < size; ++i) {
    next_.bounds[i] = std::min(next_.bounds[i] / size, n);
  }
  next_.bounds[size] = n;
  if (!fits(size, n)) {
    comm.reject((comm.rank() + 1) % size, "boundaries out of order");
  }
}

// Split and reduce: mine_ becomes the sums of this rank's region. Returns the
// largest k of all ranks.
std::uint64_t Oktopk::sum_regions(Communicator& comm, ListCoder& coder,
                                  const ListView& selected,
                                  const Contribution& mine) {
  const std::vector<std::uint64_t>& b = next_.bounds;
  const std::size_t me = comm.rank();
  const auto part = [&](std::size_t r) {
    clip_forms(mine.forms, b[r], b[r + 1], forms_);
    return shift(slice(selected, b[r], b[r + 1]), b[r], indices_);
  };
  for_others(comm, [&](std::size_t peer) {
    const ListView list = part(peer);  // and its forms
    Frame frame = encode_ranked(coder, comm, list, forms_, mine.k);
    comm.send(peer, kRegions, frame);
  });
  lists_.resize(comm.size());
  lists_[me].assign(part(me));
  std::uint64_t k = mine.k;
  for_others(comm, [&](std::size_t peer) {
    k = std::max(
        k, receive_ranked(coder, comm, peer, kRegions, forms_, lists_[peer]));
  });
  merge_all(lists_, scratch_);
  std::swap(mine_, lists_[0]);
  return std::min(k, mine.n());
}

// mine_ of every rank, in rank order, which is the order of indices.
void Oktopk::gather(Communicator& comm, ListCoder& coder, bool by_region,
                    std::uint64_t n, HostList& out) {
  const std::vector<std::uint64_t>& b = next_.bounds;
  const auto begin = [&](std::size_t r) { return by_region ? b[r] : 0; };
  const auto end = [&](std::size_t r) { return by_region ? b[r + 1] : n; };
  const std::size_t me = comm.rank();
  Frame frame = coder.encode(comm, mine_, end(me) - begin(me));
  send_to_others(comm, kGather, frame);
  for_others(comm, [&](std::size_t peer) {
    coder.receive(comm, peer, kGather, end(peer) - begin(peer), lists_[peer]);
  });
  out.clear();
  for (std::size_t r = 0; r < comm.size(); ++r) {
    out.append(r == me ? mine_ : lists_[r],
               static_cast<std::uint32_t>(begin(r)));
  }
}

void Oktopk::deliver_exactly(Communicator& comm, ListCoder& coder,
                             std::uint64_t k) {
  gather(comm, coder, true, 0, scratch_);
  largest(scratch_, k, sum_);
  float least = std::numeric_limits<float>::infinity();
  for (const float v : ListView(sum_).values) {
    least = std::min(least, std::abs(v));
  }
  next_.threshold = sum_.size() == 0 ? 0.0 : static_cast<double>(least);
}

// Cuts mine_ to its share of the cap; numbers_ are what every rank then has.
void Oktopk::agree_on_sizes(Communicator& comm, std::uint64_t k) {
  std::vector<std::uint64_t>& sizes = numbers_;
  const std::uint64_t size = mine_.size();
  gather_numbers(comm, kSizes, {&size, 1}, sizes);
  const auto total = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  const double most = std::floor(params_.cap * static_cast<double>(k));
  if (total > most) {
    for (std::uint64_t& s : sizes) {
      s = static_cast<std::uint64_t>(static_cast<double>(s) * (most / total));
    }
    largest(mine_, sizes[comm.rank()], scratch_);
    std::swap(mine_, scratch_);
  }
}

// Moves entries so that every rank has as many for the others; ranks keep their
// order. From then on indices in mine_ count from 0.
void Oktopk::level(Communicator& comm, ListCoder& coder, std::uint64_t n) {
  const std::vector<std::uint64_t>& sizes = numbers_;
  const std::size_t size = comm.size();
  std::vector<std::uint64_t>& starts = starts_;
  starts.assign(size + 1, 0);
  std::partial_sum(sizes.begin(), sizes.end(), starts.begin() + 1);
  // What rank a has of what rank b is to send, as positions in all.
  const auto overlap = [&](std::size_t a, std::size_t b) {
    return std::pair(std::max(starts[a], share(starts[size], b, size)),
                     std::min(starts[a + 1], share(starts[size], b + 1, size)));
  };
  const std::size_t me = comm.rank();
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    mine_.indices()[i] += static_cast<std::uint32_t>(next_.bounds[me]);
  }
  const auto own = [&](std::size_t peer) {
    const auto [begin, end] = overlap(me, peer);
    return begin < end ? cut(mine_, begin - starts[me], end - starts[me])
                       : ListView{};
  };
  for_others(comm, [&](std::size_t peer) {
    const auto [begin, end] = overlap(me, peer);
    if (begin >= end) return;
    Frame frame = coder.encode(comm, own(peer), n);
    comm.send(peer, kLevel, frame);
  });
  lists_[me].assign(own(me));
  for_others(comm, [&](std::size_t peer) {
    const auto [begin, end] = overlap(peer, me);
    lists_[peer].clear();
    if (begin < end) coder.receive(comm, peer, kLevel, n, lists_[peer]);
  });
  mine_.clear();
  for (const HostList& list : lists_) mine_.append(list, 0);
}

void Oktopk::deliver_above(Communicator& comm, ListCoder& coder,
                           std::uint64_t n, std::uint64_t k) {
  // In place; NaN is above all and does not count.
  mine_.shrink(copy_between(ListView(mine_).entries(),
                            threshold_key(next_.threshold), kInfKey + 1,
                            mine_.out()));
  agree_on_sizes(comm, k);
  const std::vector<std::uint64_t>& sizes = numbers_;
  const auto total = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  const auto most =
      static_cast<double>(*std::max_element(sizes.begin(), sizes.end()));
  const bool skewed =
      most * static_cast<double>(comm.size()) > params_.balance * total;
  if (skewed) level(comm, coder, n);
  gather(comm, coder, !skewed, n, sum_);
  const double wanted = static_cast<double>(k);
  if (total < params_.low * wanted) next_.threshold /= params_.lower;
  if (total > params_.high * wanted) next_.threshold *= params_.raise;
}

void Oktopk::run(Communicator& comm, ExchangeContext& context,
                 const Contribution& mine, Delivery& out) {
  next_ = state_;
  const auto every = [&](std::int64_t steps) {
    return state_.step % static_cast<std::uint64_t>(steps) == 0;
  };
  ListCoder& coder = context.coder();
  const ListView selected = context.host_view(mine);
  if (every(params_.tau) || !fits(comm.size(), mine.n())) {
    make_regions(comm, selected, mine.n());
  }
  const std::uint64_t k = sum_regions(comm, coder, selected, mine);
  if (every(params_.tau_prime)) {
    deliver_exactly(comm, coder, k);
  } else {
    deliver_above(comm, coder, mine.n(), k);
  }
  split(selected, ListView(sum_).indices, nullptr, &returned_);
  out.sum.lists.push_back(sum_.view());
  out.returned.lists.push_back(returned_.view());
  out.refused = 1;
}

}  // namespace sluice
