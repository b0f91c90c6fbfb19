#pragma once

#include <cstddef>
#include <span>
#include <vector>

// A step on paper: backward makes gradients one after another, buckets are
// selected, exchanged and applied beside it. Seconds from the start of the
// step.

namespace sluice {

// What runs beside what. Ours: a thread selects, another exchanges and applies.
struct Streams {
  bool select_beside = true;  // else in the stream of backward, which waits
  bool apply_beside = false;  // else where it is exchanged
  // There is no core to spare: what a message takes of the processor keeps
  // backward waiting as well. See kMessageWork.
  bool one_core = false;
};

// A bucket, as the timeline sees it.
struct BucketWork {
  std::size_t ready_after = 0;  // so many gradients that backward has made
  double select = 0;
  double exchange = 0;
  double apply = 0;
  bool at_end = false;  // applied when the step is committed
  // Selected by the host, beside a backward that runs elsewhere, whatever
  // Streams say. What follows is selected behind it.
  bool beside = false;
};

struct Interval {
  double begin = 0;
  double end = 0;
};

struct BucketTimes {
  double ready = 0;
  Interval select;
  Interval exchange;
  Interval apply;
};

struct Timeline {
  std::vector<BucketTimes> buckets;
  std::vector<Interval> compute;  // backward without what it waits for
  Interval vote;                  // when all is exchanged
  double end = 0;                 // all is computed and applied

  // Exchanges, and the vote, that nothing is computed beside.
  double exposed_exchange() const;
  // Selecting and applying beside neither computing nor exchanges.
  double exposed_work() const;
};

// `backward`: seconds per gradient, in the order in which they are made.
// Buckets are selected, exchanged and applied in their order, each stage one at
// a time; what takes no time does not wait for its turn. `vote`: seconds until
// all ranks know that the step is committed.
Timeline run_timeline(double forward, std::span<const double> backward,
                      std::span<const BucketWork> buckets,
                      const Streams& streams, double vote = 0);

}  // namespace sluice
