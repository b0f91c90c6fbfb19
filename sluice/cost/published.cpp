#include "sluice/cost/published.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace sluice::published {

double ring_allreduce(double ranks, double m, const Link& link) {
  return 2 * (ranks - 1) * (link.alpha + m / ranks * link.beta);
}

double tree_allreduce(double ranks, double m, const Link& link) {
  return 2 * std::log2(ranks) * link.alpha +
         2 * (ranks - 1) / ranks * m * link.beta;
}

double topk_allgather(double ranks, double k, const Link& link) {
  return std::log2(ranks) * link.alpha + 2 * (ranks - 1) * k * link.beta;
}

double gtopk_tree(double ranks, double k, const Link& link) {
  return 2 * gtopk_doubling(ranks, k, link);
}

double gtopk_doubling(double ranks, double k, const Link& link) {
  return std::log2(ranks) * (link.alpha + 2 * k * link.beta);
}

double topk_seconds(double gamma, double x) {
  return x > 0 ? gamma * x * std::log2(x) : 0;
}

double two_allgathers(double ranks, double k, double a, double b) {
  return k > 0 ? 2 * (a + b * 4 * k * ranks) : 0;
}

double Primitive::operator()(double x) const {
  const double limit = w > 0 ? std::max(0.0, (o - b) / w) : 0;
  return x < limit ? o : w * x + b;
}

double raw_seconds(Scheme scheme, const Primitives& cost, double nodes,
                   double parts, double m) {
  const double part = m / parts;
  const double moved = scheme == Scheme::kServers
                           ? cost.gather(part) + cost.broadcast(part)
                           : 2 * (nodes - 1) * cost.send(part);
  return moved + (nodes - 1) * cost.aggregate(part);
}

double compressed_seconds(Scheme scheme, const Primitives& cost, double nodes,
                          double parts, double m, double ratio) {
  const double part = m / parts;
  const double small = ratio * part;
  const double sums = (nodes - 1) * cost.aggregate(part);
  if (scheme == Scheme::kRing) {
    return 2 * (nodes - 1) * cost.send(small) + nodes * cost.encode(part) +
           nodes * cost.decode(small) + sums;
  }
  return cost.gather(small) + cost.broadcast(small) +
         std::min(parts + 1, nodes) * cost.encode(part) +
         std::min(nodes - 1 + parts, 2 * (nodes - 1)) * cost.decode(small) +
         sums;
}

Choice secopa(Scheme scheme, const Primitives& cost, double nodes, double m,
              double ratio) {
  Choice best;
  for (double parts = 1; parts <= nodes; ++parts) {
    const double raw = raw_seconds(scheme, cost, nodes, parts, m);
    const double compressed =
        compressed_seconds(scheme, cost, nodes, parts, m, ratio);
    if (parts == 1 || raw < best.raw.seconds) best.raw = {raw, parts};
    if (parts == 1 || compressed < best.compressed.seconds) {
      best.compressed = {compressed, parts};
    }
  }
  return best;
}

double dense_below(std::span<const double> buffer,
                   std::span<const double> sizes, double density,
                   const PartialCosts& cost) {
  const double all = std::accumulate(buffer.begin(), buffer.end(), 0.0);
  std::vector<double> rising(buffer.begin(), buffer.end());
  std::sort(rising.begin(), rising.end());
  // What may be dense without more elements than all sparse would send.
  double budget = std::max(1.0, density * all);
  double most = rising.back();
  for (const double size : rising) {
    if (size >= budget) {
      most = size - 1;
      break;
    }
    budget -= size;
  }
  std::vector<double> limits(sizes.begin(), sizes.end());
  limits.push_back(0);
  std::sort(limits.begin(), limits.end());
  double best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (const double limit : limits) {
    if (limit > most) break;
    double sent = 0;
    double seconds = cost.backward(all);
    for (const double size : buffer) {
      if (size > limit) seconds += cost.compress(size);
      sent += size > limit ? std::max(1.0, std::floor(density * size)) : size;
    }
    seconds += cost.network(sent);
    if (seconds >= least) continue;
    least = seconds;
    best = limit;
  }
  return best;
}

double most_speedup(double forward, double backward, double communication) {
  return (forward + backward + communication) /
         (forward + std::max(backward, communication));
}

}  // namespace sluice::published
