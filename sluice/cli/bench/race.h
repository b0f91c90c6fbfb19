#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sluice/cli/bench/selections.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/collective/vote.h"

namespace sluice {

struct RaceOptions {
  std::vector<std::string> algorithms;  // see make_collective
  SelectionOptions selections;
  std::uint64_t warmup = 2;  // steps that are not timed
  std::uint64_t steps = 7;   // steps that are
};

// One exchange, as one rank saw it. All are doubles: samples travel as bytes.
struct Sample {
  double seconds = 0;    // of the exchange
  double cpu = 0;        // seconds of this thread's processor in it
  double apply = 0;      // seconds to write the mean to a dense gradient
  double sent = 0;       // bytes, headers included
  double received = 0;   // the same
  double messages = 0;   // sent
  double delivered = 0;  // entries of the sum; 0 on ranks other than 0
};

// What an algorithm did, as rank 0 knows it in the end.
struct Finish {
  std::string spec;
  std::string by;         // how it went about it, if it had a choice
  bool exact = true;      // see SparseAllreduce
  double dense_word = 0;  // bytes of an element, if it sends all of them
  // By rank, then by step: whole cycles of them where bytes come in cycles.
  std::vector<std::vector<Sample>> samples;
  bool cycles = false;
  std::size_t first_timed = 0;  // the steps before warmed up
  std::size_t end_timed = 0;
};

// All algorithms on the same selections, in turns: a round runs each once. One
// instance per rank.
class Race {
 public:
  Race(const RaceOptions& options, Communicator& comm);
  ~Race();

  // In the order of the options; nothing on ranks other than 0. Throws
  // std::runtime_error if an exact algorithm misses an index.
  std::vector<Finish> run();
  // Indices that any rank had, by step; on rank 0.
  const std::vector<double>& unions() const { return unions_; }

 private:
  struct Lane;

  void prepare(std::uint64_t step);
  void hide_selected();
  void settle(Lane& lane);
  Sample exchange(Lane& lane, std::uint64_t step);
  void reduce(Lane& lane, std::uint64_t step);
  double count(const Lane& lane, std::uint64_t step) const;
  Finish finish(const Lane& lane);

  RaceOptions options_;
  Communicator& comm_;
  std::unique_ptr<Backend> backend_;
  ExchangeContext context_;
  Selections selections_;
  std::vector<Lane> lanes_;
  HostList selected_;
  SegmentForm form_;
  SparseBlock block_;              // the same
  std::vector<float> dense_;       // what dense algorithms sum
  std::vector<float> mean_;        // of all
  std::vector<float> remainders_;  // for dense-bf16
  Buffer memory_;                  // for cltk, as residuals are
  std::span<float> rest_;          // of it
  HostList hidden_;                // what is selected, taken out of rest_
  std::vector<double> unions_;
  Standing standing_;
};

}  // namespace sluice
