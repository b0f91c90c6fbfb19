#include "sluice/cost/patterns.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

constexpr double kFrame = 48;

double merging(double lists, double entries, const Rates& rates) {
  return lists > 1 ? std::log2(lists) * entries * rates.merge : 0;
}

}  // namespace

Cost ring_cost(double elements, double element_bytes, double ranks,
               const Network& network, const Rates& rates) {
  const double share = elements / ranks;
  const double bytes = share * element_bytes;
  const std::size_t segment = ring_segment(static_cast<std::size_t>(share));
  const double segments =
      std::max(1.0, std::ceil(share / static_cast<double>(segment)));
  const Cost hop = segments * message_cost(kFrame + bytes / segments, network) +
                   work_cost(share * rates.dense);
  return 2 * (ranks - 1) * hop;
}

Cost machine_sum_cost(double elements, double ranks, const Network& network,
                      const Rates& rates) {
  const std::size_t owners = machine_sum_owners(
      static_cast<std::size_t>(elements), static_cast<std::size_t>(ranks));
  if (owners > 1) return ring_cost(elements, 4, ranks, network, rates);
  return (ranks - 1) * (message_cost(kFrame + 4 * elements, network) +
                        work_cost(elements * rates.dense));
}

Cost machine_copy_cost(double elements, double ranks, const Network& network) {
  const auto segment =
      static_cast<double>(ring_segment(static_cast<std::size_t>(elements)));
  const double segments = std::max(1.0, std::ceil(elements / segment));
  return std::ceil(std::log2(ranks)) * segments *
         message_cost(kFrame + 4 * elements / segments, network);
}

Cost direct_cost(const Workload& x, const Network& network,
                 const Rates& rates) {
  const double others = x.ranks - 1;
  return others * message_cost(coded_bytes(x.k, x.n, x.value_bytes), network) +
         work_cost(x.k * (rates.encode + others * rates.decode));
}

Cost owned_cost(const Workload& x, double pulled, double most,
                const Network& network, const Rates& rates) {
  const double others = x.ranks - 1;
  const double part = x.n / x.ranks;
  const double push = coded_bytes(most * x.k / x.ranks, part, x.value_bytes);
  const double pull = coded_bytes(most * pulled / x.ranks, part);
  const double share = others / x.ranks;
  return others * (message_cost(push, network) + message_cost(pull, network)) +
         work_cost((x.k + pulled / x.ranks) * rates.encode +
                   share * (x.k + pulled) * rates.decode +
                   merging(x.ranks, 0.5 * (x.u / x.ranks + x.k), rates));
}

Cost star_cost(double ranks, double bytes, const Network& network) {
  return 2 * (ranks - 1) * message_cost(kFrame + bytes, network);
}

Doubling::Doubling(double ranks)
    : rounds(std::floor(std::log2(ranks))), folded(std::exp2(rounds) < ranks) {}

}  // namespace sluice
