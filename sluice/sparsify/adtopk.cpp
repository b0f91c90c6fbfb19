#include "sluice/sparsify/adtopk.h"

#include <algorithm>
#include <cmath>

#include "sluice/core/key.h"
#include "sluice/sparsify/topk.h"

namespace sluice {
namespace {

// Entries a density asks of a row; the product is truncated in double.
std::size_t row_budget(std::size_t length, double density) {
  return std::max<std::size_t>(
      1, static_cast<std::size_t>(density * static_cast<double>(length)));
}

std::size_t row_total(const RowGeometry& rows) {
  return rows.slabs * rows.stride * rows.k;
}

Param dim_param(std::string& dim) {
  return {"dim", &dim, "dimension that rows run along",
          0,     0,    {"1", "0", "longer"}};
}

struct ThresholdConstants {
  std::int32_t interval;
  std::int32_t warm;
};

struct ThresholdState {
  TopkState topk;
  double threshold;
  double tolerance;
  std::int32_t interval;  // threshold turns between refreshes; 0: not set
  std::int32_t turns;     // since the last refresh
  std::uint32_t settled;  // the threshold moved little at the last refresh
  std::uint32_t turn;     // kind of the current odd turn
};

enum Turn : std::uint32_t { kExactTurn, kRefreshTurn, kReuseTurn, kRowsTurn };

Turn turn_of(const RuleCall& call, const ThresholdState& s) {
  const auto& c = params_as<ThresholdConstants>(call.params);
  const SegmentFacts& f = call.facts;
  if (f.step < static_cast<std::uint64_t>(c.warm) || s.threshold <= 0) {
    return kExactTurn;
  }
  if (f.total_steps > 0 && 4 * f.step > 3 * f.total_steps && s.settled != 0) {
    return kRowsTurn;
  }
  return s.turns >= s.interval ? kRefreshTurn : kReuseTurn;
}

Query ask_threshold(const RuleCall& call) {
  auto& s = state_as<ThresholdState>(call.state);
  if (s.interval == 0) {
    s.interval = params_as<ThresholdConstants>(call.params).interval;
  }
  if (call.round == 0) s.turn = turn_of(call, s);
  Query query;
  if (s.turn == kRowsTurn) {
    query.rows = true;
    return query;
  }
  if (s.turn == kReuseTurn) return query;
  return TopkRule::ask(call, s.topk);
}

Bracket propose_threshold(const RuleCall& call, const Answer& answer) {
  auto& s = state_as<ThresholdState>(call.state);
  if (s.turn != kReuseTurn) {
    return TopkRule::propose(call, s.topk, answer);
  }
  const std::uint32_t key = std::max(threshold_key(s.threshold), 1U);
  return {key, key, false, false};
}

Verdict judge_threshold(const RuleCall& call, const Counts& counts) {
  auto& s = state_as<ThresholdState>(call.state);
  if (s.turn != kReuseTurn) return TopkRule::judge(call, counts);
  if (!counts.overflow && counts.lo <= 2 * call.facts.k) {
    return {Verdict::kTake, counts.lo};
  }
  return {counts.overflow ? Verdict::kExact : Verdict::kTake, call.facts.k};
}

// How far the threshold moved decides when to look again.
void refresh(ThresholdState& s, double found) {
  const double moved = std::abs(found - s.threshold);
  if (moved > s.tolerance) {
    s.interval = std::max(s.interval - (moved > 2 * s.tolerance ? 2 : 1), 5);
    s.settled = 0;
  } else {
    s.interval += moved < s.tolerance / 2 ? 2 : 1;
    s.settled = 1;
  }
}

void observe_threshold(const RuleCall& call, const Outcome& outcome) {
  auto& s = state_as<ThresholdState>(call.state);
  if (outcome.by_rows) return;
  if (s.turn == kReuseTurn) {
    ++s.turns;
    return;
  }
  TopkRule::observe(s.topk, outcome);
  if (outcome.selected == 0) return;
  const auto found = static_cast<double>(key_value(outcome.threshold_key));
  if (s.turn == kRefreshTurn) refresh(s, found);
  s.threshold = found;
  s.tolerance = found / 10;
  s.turns = 0;
}

void plan_rows(SegmentTask& task, const RowGeometry& rows) {
  task.kind = SelectKind::kRows;
  task.rows = rows;
  task.capacity = row_total(rows);
}

}  // namespace

RowGeometry adtopk_rows(const Shape3& shape, std::string_view dim,
                        double density) {
  const bool first =
      dim == "0" || (dim == "longer" && shape.d0 > shape.c && shape.d0 > 1);
  RowGeometry rows;
  if (first && shape.d0 > 1) {
    rows = {1, shape.d0, shape.c * shape.r, 0};
  } else {
    rows = {shape.d0, shape.c, shape.r, 0};
  }
  rows.k = row_budget(rows.length, density);
  return rows;
}

ParamList Adtopk::list(Params& p) { return {dim_param(p.dim)}; }

void Adtopk::choose(const Shape3& shape, SegmentTask& task) const {
  plan_rows(task, adtopk_rows(shape, params_.dim, task.facts.density));
}

void AdtopkInterleaved::choose(const Shape3& shape, SegmentTask& task) const {
  if (task.facts.step % 2 == 0) {
    plan_rows(task, adtopk_rows(shape, params_.dim, task.facts.density));
    return;
  }
  task.kind = SelectKind::kThreshold;
  task.rule = topk_rule();
  task.capacity = task.facts.k;
}

ParamList AdtopkThreshold::list(Params& p) {
  return {dim_param(p.dim),
          {"interval", &p.interval,
           "threshold turns before the first refresh (paper: 5 for ResNet, 10 "
           "for VGG, 20 for LSTM and BERT)",
           1, 1e6},
          {"warm", &p.warm, "steps in which odd turns select exactly", 0, 1e9}};
}

void AdtopkThreshold::choose(const Shape3& shape, SegmentTask& task) const {
  const RowGeometry rows = adtopk_rows(shape, params_.dim, task.facts.density);
  if (task.facts.step % 2 == 0) {
    plan_rows(task, rows);
    return;
  }
  Rule rule;
  rule.ask = &ask_threshold;
  rule.propose = &propose_threshold;
  rule.judge = &judge_threshold;
  rule.observe = &observe_threshold;
  rule.params = pack_params(
      ThresholdConstants{static_cast<std::int32_t>(params_.interval),
                         static_cast<std::int32_t>(params_.warm)});
  task.kind = SelectKind::kThreshold;
  task.rule = rule;
  task.rows = rows;  // late odd turns may go by rows
  task.capacity = std::max<std::size_t>(
      std::min(2 * task.facts.k, task.facts.n), row_total(rows));
}

ParamList Tile::list(Params& p) {
  return {{"two_bit", &p.two_bit,
           "send values as two bits and a table (SparseLoCo)"}};
}

void Tile::choose(const Shape3& shape, SegmentTask& task) const {
  task.kind = SelectKind::kTiles;
  task.rows.slabs = 1;
  task.rows.length = shape.d0;
  task.rows.stride = shape.c * shape.r;
  task.rows.k = row_budget(RowGeometry::kTileSize, task.facts.density);
  if (params_.two_bit) task.values = ValueForm::kTwoBit;
  // The most entries: every tile full, edge tiles hold fewer.
  std::size_t total = 0;
  const auto tiles = [](std::size_t extent, std::size_t edge) {
    return (extent + edge - 1) / edge;
  };
  total = task.rows.length == 1
              ? tiles(task.rows.stride, RowGeometry::kTileSize)
              : tiles(task.rows.length, RowGeometry::kTileEdge) *
                    tiles(task.rows.stride, RowGeometry::kTileEdge);
  task.capacity = std::min<std::size_t>(total * task.rows.k, task.facts.n);
}

}  // namespace sluice
