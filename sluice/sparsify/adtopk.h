#pragma once

#include <cmath>
#include <string>

#include "sluice/sparsify/topk.h"

namespace sluice {

// Which dimension the rows of all-dimension top-k run along.
struct AdtopkParams {
  std::string dim = "1";
};

// The rows of a tensor along the chosen dimension; k = max(1, floor(density *
// length)) entries each. "longer" takes dimension 0 if it is the longer one.
RowGeometry adtopk_rows(const Shape3& shape, std::string_view dim,
                        double density);

// ADTopk: the same number of entries from every row of a tensor. A row of a
// convolution weight is one filter tap over all input channels; a 1-D tensor is
// one row.
class Adtopk final : public SparsifierOf<Adtopk, AdtopkParams> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "adtopk";
  static constexpr std::string_view kSummary =
      "exactly the same number of largest entries from every row";
  static ParamList list(Params& p);

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

// ADTopk in even steps, global top-k in odd ones.
class AdtopkInterleaved final
    : public SparsifierOf<AdtopkInterleaved, AdtopkParams> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "adtopk-interleaved";
  static constexpr std::string_view kSummary =
      "adtopk in even steps, topk in odd ones";
  using RuleType = TopkRule;
  static ParamList list(Params& p) { return Adtopk::list(p); }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

// The odd turns of AdtopkThreshold: exact at first, then a threshold that is
// reused and refreshed, at last rows. Two rounds.
struct AdtopkThresholdRule {
  static constexpr std::uint32_t kRounds = TopkRule::kRounds;
  struct Constants {
    std::int32_t interval;
    std::int32_t warm;
  };

  SLUICE_HD static Query ask(const RuleCall& call) {
    auto& s = state_as<State>(call.state);
    if (s.interval == 0) {
      s.interval = params_as<Constants>(call.params).interval;
    }
    if (call.round == 0) s.turn = turn_of(call, s);
    Query query;
    if (s.turn == kRowsTurn) {
      query.rows = true;
      return query;
    }
    if (s.turn == kReuseTurn) return query;
    return TopkSearch::ask(call, s.topk);
  }

  SLUICE_HD static Bracket propose(const RuleCall& call, const Answer& answer) {
    auto& s = state_as<State>(call.state);
    if (s.turn != kReuseTurn) {
      return TopkSearch::propose(call, s.topk, answer);
    }
    const std::uint32_t key = max_of(threshold_key(s.threshold), 1U);
    return {key, key, false, false};
  }

  SLUICE_HD static Verdict judge(const RuleCall& call, const Counts& counts) {
    auto& s = state_as<State>(call.state);
    if (s.turn != kReuseTurn) return TopkSearch::judge(call, counts);
    if (!counts.overflow && counts.lo <= 2 * call.facts.k) {
      return {Verdict::kTake, counts.lo};
    }
    return {counts.overflow ? Verdict::kExact : Verdict::kTake, call.facts.k};
  }

  SLUICE_HD static void observe(const RuleCall& call, const Outcome& outcome) {
    auto& s = state_as<State>(call.state);
    if (outcome.by_rows) return;
    if (s.turn == kReuseTurn) {
      ++s.turns;
      return;
    }
    TopkSearch::observe(call, s.topk, outcome);
    if (outcome.selected == 0) return;
    // Where even k are not there, there is no threshold to go on with.
    const bool scarce = outcome.selected < call.facts.k;
    const auto found =
        scarce ? 0 : static_cast<double>(key_value(outcome.threshold_key));
    if (s.turn == kRefreshTurn) refresh(s, found);
    s.threshold = found;
    s.tolerance = found / 10;
    s.turns = 0;
  }

 private:
  struct State {
    TopkState topk;
    double threshold;
    double tolerance;
    std::int32_t interval;  // threshold turns between refreshes; 0: not set
    std::int32_t turns;     // since the last refresh
    std::uint32_t settled;  // the threshold moved little at the last refresh
    std::uint32_t turn;     // kind of the current odd turn
  };

  enum Turn : std::uint32_t { kExactTurn, kRefreshTurn, kReuseTurn, kRowsTurn };

  SLUICE_HD static Turn turn_of(const RuleCall& call, const State& s) {
    const auto& c = params_as<Constants>(call.params);
    const SegmentFacts& f = call.facts;
    if (f.step < static_cast<std::uint64_t>(c.warm) || s.threshold <= 0) {
      return kExactTurn;
    }
    if (f.total_steps > 0 && 4 * f.step > 3 * f.total_steps && s.settled != 0) {
      return kRowsTurn;
    }
    return s.turns >= s.interval ? kRefreshTurn : kReuseTurn;
  }

  // How far the threshold moved decides when to look again.
  SLUICE_HD static void refresh(State& s, double found) {
    const double moved = std::abs(found - s.threshold);
    if (moved > s.tolerance) {
      s.interval = max_of(s.interval - (moved > 2 * s.tolerance ? 2 : 1), 5);
      s.settled = 0;
    } else {
      s.interval += moved < s.tolerance / 2 ? 2 : 1;
      s.settled = 1;
    }
  }
};

struct AdtopkThresholdParams {
  std::string dim = "1";
  std::int64_t interval = 5;
  std::int64_t warm = 15;
};

// The alternation of the HPDC'24 paper: ADTopk in even steps; in odd ones a
// threshold that is found exactly at first, then reused and refreshed.
class AdtopkThreshold final
    : public SparsifierOf<AdtopkThreshold, AdtopkThresholdParams> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "adtopk-threshold";
  static constexpr std::string_view kSummary =
      "adtopk in even steps, a reused and refreshed threshold in odd ones";
  using RuleType = AdtopkThresholdRule;
  static ParamList list(Params& p);
  bool estimates() const override { return true; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

struct TileParams {
  bool two_bit = false;
};

// SparseLoCo's chunks: exactly k per 64 x 64 tile, or per 4096 elements of a
// 1-D tensor.
class Tile final : public SparsifierOf<Tile, TileParams> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "tile";
  static constexpr std::string_view kSummary =
      "exactly the same number of largest entries from every 64 x 64 tile";
  static ParamList list(Params& p);

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

}  // namespace sluice
