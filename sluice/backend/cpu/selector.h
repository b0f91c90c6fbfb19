#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/backend/cpu/kernels.h"
#include "sluice/backend/cpu/rows.h"
#include "sluice/backend/cpu/scratch.h"
#include "sluice/backend/cpu/thread_pool.h"
#include "sluice/backend/pass.h"

namespace sluice::cpu {

// Runs Backend::select on the CPU.
//
// All segments of a bucket go through each phase together, as tasks of one
// pool: sample, stream (each piece of a segment writes its candidates, in index
// order, to its own scratch), resolve the cut, emit. A segment whose bracket
// failed goes round again on the accumulated memory. Neither the pieces nor the
// number of threads show in the result.
class Selector {
 public:
  Selector(const Kernels& kernels, ThreadPool& pool)
      : kernels_(kernels), pool_(pool) {}

  void run(const SelectPass& pass);

 private:
  // One segment on its way through a step.
  struct Work {
    const SegmentTask* task = nullptr;
    RuleState* state = nullptr;
    Source source;
    std::size_t first_piece = 0;
    std::size_t pieces = 0;
    std::size_t capacity = 0;  // candidates that are not an overflow
    bool open = false;         // a threshold is still to be found
    bool asking = false;       // a bracket is still to be proposed
    bool streaming = false;    // takes part in the current stream phase
    bool by_rows = false;
    // Exact selection beyond the rule's own bracket: from a sample first, then,
    // if that fails as well, by search.
    bool exact = false;
    bool searched = false;
    std::uint64_t wanted = 0;
    std::uint32_t round = 0;
    Query query;
    Answer answer;
    Bracket bracket;
    Verdict verdict;
    std::uint32_t cut = 0;         // smallest key taken
    bool tied = false;             // only some of those at the cut are taken
    bool spilled = false;          // some that reach hi are not taken
    std::uint64_t candidates = 0;  // whatever the pieces: see count()
    std::uint64_t recorded = 0;    // in their lists
    std::uint64_t high = 0;        // of them, those that reach hi
    std::uint64_t nonfinite = 0;
    std::uint64_t selected = 0;
    double lost = 0;
    std::size_t first_chunk = 0;
    std::size_t chunks = 0;
    std::size_t key_offset = 0;
    std::size_t bitmap = 0;  // kListed: offset of its words
  };

  // A contiguous part of a segment and its candidates.
  struct Piece {
    std::size_t work = 0;
    std::size_t begin = 0;  // elements; for rows, units of the geometry
    std::size_t end = 0;
    std::size_t offset = 0;  // into the candidate scratch
    std::size_t room = 0;    // candidates; kBlockRoom and kSlack more exist
    StreamResult got;
    std::size_t bracketed = 0;  // candidates below hi, copied aside
    std::size_t take = 0;
    std::size_t ties = 0;    // at the cut, that are taken
    std::size_t excess = 0;  // and that are not
    std::size_t out = 0;
  };

  // A part of a sample: lines [begin, end), or elements of a full scan.
  struct Chunk {
    std::size_t work = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t key_offset = 0;
    std::size_t histogram = 0;  // index of its histogram
    Moments moments;
  };

  RuleCall call(const Work& work) const {
    return {work.task->facts, work.task->rule.params, *work.state, work.round};
  }
  Candidates candidates(const Piece& piece) const {
    return {indices_.data() + piece.offset, values_.data() + piece.offset,
            piece.room};
  }

  void plan(const SelectPass& pass);
  void plan_pieces(Work& work);

  // sampling.cpp
  void sample();
  void ask_and_propose();
  void plan_sample(Work& work);
  void sample_chunk(Chunk& chunk);
  // Returns the histogram, or null where none was made.
  const std::uint32_t* finish_sample(Work& work);
  void propose(Work& work, const std::uint32_t* histogram);
  void search_threshold(Work& work);
  void select_exactly(Work& work, std::uint64_t count);
  void measure_lost();

  // streaming
  void stream();
  void stream_piece(Piece& piece);
  Counts count(Work& work);
  void judge(Work& work);
  void restore(Work& work);

  // resolving
  void resolve(Work& work);
  void emit(const SelectPass& pass, Piece& piece);
  void drop_ties(Piece& piece);
  void emit_tied(const SelectPass& pass, Piece& piece);
  void finish(const SelectPass& pass);

  // listed.cpp
  void draw_indices();
  void stream_listed(const Work& work, Piece& piece);

  const Kernels& kernels_;
  ThreadPool& pool_;
  std::vector<Work> works_;
  std::vector<Piece> pieces_;
  std::vector<Chunk> chunks_;
  std::vector<std::vector<Saved>> saved_;  // one per work
  std::vector<RowScratch> row_scratch_;    // one per piece
  Scratch<std::uint32_t> indices_;
  Scratch<float> values_;
  Scratch<std::uint32_t> bracket_indices_;
  Scratch<float> bracket_values_;
  Scratch<std::uint32_t> keys_;
  Scratch<std::uint32_t> histograms_;
  Scratch<std::uint32_t> sorting_;
  Scratch<std::uint32_t> cut_keys_;
  Scratch<std::uint64_t> bitmap_;
  std::vector<Moments> partial_;
};

// The key of rank `rank` (1 = largest) of keys[0, m); reorders them. Uses a
// histogram first, so that it costs about one pass.
std::uint32_t nth_largest_key(std::uint32_t* keys, std::size_t m,
                              std::uint64_t rank);

}  // namespace sluice::cpu
