#include "sluice/sparsify/adtopk.h"

#include <algorithm>

#include "sluice/sparsify/rules.h"

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
  plan_threshold(task, make_rule<TopkRule>(), task.facts.k);
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
  const AdtopkThresholdRule::Constants constants = {
      static_cast<std::int32_t>(params_.interval),
      static_cast<std::int32_t>(params_.warm)};
  plan_threshold(task, make_rule<AdtopkThresholdRule>(constants),
                 std::max<std::size_t>(std::min(2 * task.facts.k, task.facts.n),
                                       row_total(rows)));
  task.rows = rows;  // late odd turns may go by rows
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
