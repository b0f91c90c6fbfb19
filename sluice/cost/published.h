#pragma once

#include <functional>
#include <span>

// Cost formulas as papers state them, in one place. They count words, not the
// bytes of our messages, and know no headers; `docs/plans.md` names the papers.
// Seconds and elements are whatever alpha and beta are per.

namespace sluice::published {

// gTop-k's table: alpha per message, beta per element; m elements, of which k
// are selected.
struct Link {
  double alpha = 0;
  double beta = 0;
};
double ring_allreduce(double ranks, double m, const Link& link);
double tree_allreduce(double ranks, double m, const Link& link);
double topk_allgather(double ranks, double k, const Link& link);
double gtopk_tree(double ranks, double k, const Link& link);
double gtopk_doubling(double ranks, double k, const Link& link);

// OMGS: selection of x elements, and two all-gathers (values, then indices) of
// k entries, with b per byte. Nothing for nothing.
double topk_seconds(double gamma, double x);
double two_allgathers(double ranks, double k, double a, double b);

// HiPress: a primitive takes o below a size, w x + b from there on.
struct Primitive {
  double w = 0;
  double b = 0;
  double o = 0;

  double operator()(double x) const;
};
struct Primitives {
  Primitive gather, broadcast, encode, decode, send, aggregate;
};
enum class Scheme { kServers, kRing };

// What a gradient of m elements takes in `parts` partitions among so many
// nodes, as it is or compressed to a share of `ratio`.
double raw_seconds(Scheme scheme, const Primitives& cost, double nodes,
                   double parts, double m);
double compressed_seconds(Scheme scheme, const Primitives& cost, double nodes,
                          double parts, double m, double ratio);

// The best number of partitions, from 1 to `nodes`, and what it takes.
struct Partitioned {
  double seconds = 0;
  double parts = 1;
};
struct Choice {
  Partitioned raw;
  Partitioned compressed;
  bool compress() const { return raw.seconds > compressed.seconds; }
};
Choice secopa(Scheme scheme, const Primitives& cost, double nodes, double m,
              double ratio);

// ADTopk: what backward, compressing a tensor and the network take, by
// elements.
struct PartialCosts {
  std::function<double(double)> backward, compress, network;
};
// The tensors of a buffer up to this size stay dense; one of `sizes` (those of
// the whole model) or 0. Serial inside a buffer, as released.
double dense_below(std::span<const double> buffer,
                   std::span<const double> sizes, double density,
                   const PartialCosts& cost);

// LAGS: the most by which pipelining can shorten an iteration.
double most_speedup(double forward, double backward, double communication);

}  // namespace sluice::published
