#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// What an exchange costs, on paper. Knows nothing of real communicators.

namespace sluice {

// A message of b bytes takes alpha + b * beta seconds at either end's port.
struct Network {
  double alpha = 0;
  double beta = 0;
};

// Machines that have several ranks each: the network between them, and what
// their ranks have among themselves.
struct Topology {
  Network between;
  Network inside;
  double per_machine = 1;  // ranks

  bool two_level() const { return per_machine > 1; }
};

// What one core takes for an entry, in seconds.
struct Rates {
  double encode = 2e-9;
  double decode = 2.5e-9;
  double merge = 2e-9;    // per entry that comes out of a merge of two lists
  double deal = 2.5e-9;   // to find an index's owner, or the index of a place
  double dense = 1.5e-9;  // per element of a dense sum that is sent or received
};

// What a message takes of the processor, of alpha and beta, where that has
// something else to do: calls, switches of threads, copies. With a core of an
// EPYC for each of two ranks (2026-11-18), each bucket of resnet20 that
// travelled beside backward made the step 0.1 to 0.2 ms longer over TCP.
inline constexpr Network kMessageWork = {80e-6, 1e-10};

// Nobody has counted: as bad as can be.
inline constexpr double kUnknownSkew = 1e9;

struct Workload {
  double n = 0;  // elements
  double k = 0;  // entries per rank, on average
  double u = 0;  // indices that any rank has
  double ranks = 1;
  // Of P equal ranges of indices, the fullest one's share over the average.
  double skew = 1;
  // Of a value that was selected; sums have 4.
  double value_bytes = 4;
};

// Bytes of a message of `count` entries below n, with all headers.
double coded_bytes(double count, double n, double value_bytes = 4);

// Indices that any of the ranks has, if each picks k of n independently.
double independent_union(double n, double k, double ranks);

// The same for the first p of the ranks, from what all of them have.
double partial_union(const Workload& load, double p);

// Fewest bytes that a rank can receive on average, if all are to have the sum:
// k + u (1 - 2 / P) values and log2 C(n - k, u - k) bits.
double bound_bytes(const Workload& load, double value_bytes = 4);

// What an exchange takes of a rank.
struct Cost {
  double seconds = 0;
  double bytes = 0;  // received by the rank that receives most, with headers
};
inline Cost operator+(const Cost& a, const Cost& b) {
  return {a.seconds + b.seconds, a.bytes + b.bytes};
}

using CostFunction = Cost (*)(const Workload&, const Network&, const Rates&);

// What a collective says of itself, as data: who plans or predicts needs no
// collective for it. See collective_costs().
struct CostRow {
  std::string_view name;
  CostFunction function = nullptr;  // for two ranks or more
  bool exact = true;                // delivers the sum of all that was selected
  bool dense = false;  // can sum vectors of which everything travels
  // Values that were selected as bf16 or fp16 travel so.
  bool carries_bf16 = true;
  bool carries_fp16 = true;

  // Nothing for one rank.
  Cost of(const Workload& load, const Network& network,
          const Rates& rates = {}) const {
    return load.ranks <= 1 ? Cost{} : function(load, network, rates);
  }
};

// The row of that name. Throws std::invalid_argument, listing what exists.
const CostRow& find_cost(std::span<const CostRow> rows, std::string_view name);

}  // namespace sluice
