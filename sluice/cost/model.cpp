#include "sluice/cost/model.h"

#include <algorithm>
#include <cmath>

#include "sluice/core/error.h"

namespace sluice {
namespace {

constexpr double kHeaders = 96;  // of a frame and of a coded list

double log2_choose(double n, double k) {
  if (k <= 0 || k >= n) return 0;
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) /
         std::log(2.0);
}

double merging(double lists, double entries, const Rates& rates) {
  return lists > 1 ? std::log2(lists) * entries * rates.merge : 0;
}

// Everybody's list to everybody.
double direct(const Workload& x, const Network& net, const Rates& rates) {
  const double others = x.ranks - 1;
  return others * (net.alpha + net.beta * coded_bytes(x.k, x.n)) +
         x.k * (rates.encode + others * rates.decode);
}

// To owners, who sum, and from them to everybody; `most`: the fullest owner's
// share over the average.
double owned(const Workload& x, const Network& net, const Rates& rates,
             double most) {
  const double others = x.ranks - 1;
  const double push = coded_bytes(most * x.k / x.ranks, x.n / x.ranks);
  const double pull = coded_bytes(most * x.u / x.ranks, x.n / x.ranks);
  const double share = others / x.ranks;
  return others * (2 * net.alpha + net.beta * (push + pull)) +
         (x.k + x.u / x.ranks) * rates.encode +
         share * (x.k + x.u) * rates.decode +
         merging(x.ranks, 0.5 * (x.u / x.ranks + x.k), rates);
}

double doubling(const Workload& x, const Network& net, const Rates& rates) {
  const auto round = [&](double count, double after) {
    return net.alpha + net.beta * coded_bytes(count, x.n) +
           count * (rates.encode + rates.decode) + after * rates.merge;
  };
  const double rounds = std::floor(std::log2(x.ranks));
  const bool folded = std::exp2(rounds) < x.ranks;
  const double first = folded ? 2 : 1;
  double seconds = folded ? round(x.k, partial_union(x, 2)) : 0;
  for (double have = 1; have < std::exp2(rounds); have *= 2) {
    const double before = partial_union(x, std::min(x.ranks, first * have));
    const double after = partial_union(x, std::min(x.ranks, 2 * first * have));
    seconds += round(before, after);
  }
  return seconds + (folded ? round(x.u, 0) : 0);
}

double ring(const Workload& x, const Network& net, const Rates& rates) {
  const double hops = 2 * (x.ranks - 1);
  return hops * (net.alpha + x.n / x.ranks * (4 * net.beta + rates.dense));
}

}  // namespace

double coded_bytes(double count, double n) {
  if (count <= 0 || n <= 0) return kHeaders;
  count = std::min(count, n);
  const double low = std::floor(std::log2(n / count));
  const double elias_fano = count * (low + 1) + n / std::exp2(low);
  const double coded = count * 4 + std::min(elias_fano, n) / 8;
  return kHeaders + std::min(coded, 4 * n);
}

double independent_union(double n, double k, double ranks) {
  if (n <= 0) return 0;
  return n * (1 - std::pow(1 - std::min(1.0, k / n), ranks));
}

double partial_union(const Workload& x, double p) {
  if (x.k <= 0 || x.ranks <= 1) return x.k;
  const double growth = std::log(std::max(1.0, x.u / x.k)) / std::log(x.ranks);
  return std::min(x.u, x.k * std::pow(p, growth));
}

double bound_bytes(const Workload& x, double value_bytes) {
  if (x.ranks <= 1) return 0;
  return value_bytes * (x.k + x.u * (1 - 2 / x.ranks)) +
         log2_choose(x.n - x.k, x.u - x.k) / 8;
}

double predict(std::string_view algorithm, const Workload& load,
               const Network& network, const Rates& rates) {
  if (load.ranks <= 1) return 0;
  if (algorithm == "dense") return ring(load, network, rates);
  if (algorithm == "allgather") return direct(load, network, rates);
  if (algorithm == "sparcml-rd") return doubling(load, network, rates);
  require(algorithm == "balanced" || algorithm == "sparcml-split",
          "[predict] knows dense, allgather, sparcml-rd, sparcml-split and "
          "balanced, got '",
          algorithm, "'");
  if (algorithm == "sparcml-split") {
    return owned(load, network, rates, load.skew);
  }
  return owned(load, network, rates, 1) + (load.k + load.u) * rates.deal;
}

}  // namespace sluice
