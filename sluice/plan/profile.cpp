#include "sluice/plan/profile.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/core/nearest_name.h"
#include "sluice/plan/json_fields.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kProfileFile = "profile";
constexpr std::string_view kStages[] = {"select", "encode", "decode", "merge",
                                        "apply",  "sum",    "copy"};

bool is_time(double seconds) { return seconds >= 0 && seconds <= kMostSeconds; }

std::size_t product(const std::vector<std::size_t>& shape) {
  std::size_t all = 1;
  for (const std::size_t d : shape) {
    if (__builtin_mul_overflow(all, d, &all)) return 0;
  }
  return all;
}

TensorProfile tensor_from(const Json& json, std::size_t number) {
  FieldsOf fields{kProfileFile, concat("tensor ", number), json};
  fields.check({"name", "elements", "shape", "backward", "spread"});
  TensorProfile t;
  t.name = fields.text("name");
  fields.what = concat("tensor '", t.name, "'");
  t.elements = fields.count("elements");
  t.backward = fields.number("backward");
  t.spread = fields.number("spread", 0);
  if (fields.has("shape")) {
    for (const Json& dim : fields.array("shape")) {
      require(dim.is_number_unsigned() && dim != 0, "[profile] the shape of ",
              fields.what, " must be whole numbers, at least 1, got ",
              dim.dump());
      t.shape.push_back(dim.get<std::size_t>());
    }
  }
  return t;
}

StageCost cost_from(const Json& json, std::size_t number) {
  const FieldsOf fields{kProfileFile, concat("cost ", number), json};
  fields.check({"what", "method", "device", "points"});
  StageCost cost;
  cost.what = fields.text("what");
  cost.method = fields.text("method", "*");
  cost.device = fields.text("device", "cpu");
  std::vector<CostCurve::Point> points;
  for (const Json& p : fields.array("points")) {
    const bool sound =
        p.is_array() && p.size() == 2 && p[0].is_number() && p[1].is_number();
    require(sound, "[profile] a point of ", fields.what,
            " must be [size, seconds], got ", p.dump());
    points.push_back({p[0].get<double>(), p[1].get<double>()});
  }
  try {
    cost.curve = CostCurve(std::move(points));
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(concat("[profile] ", fields.what, " (",
                                       cost.what, " of ", cost.method, " on ",
                                       cost.device, "): ", e.what()));
  }
  return cost;
}

void check_tensor(const TensorProfile& t) {
  require(!t.name.empty(), "[profile] a tensor must have a name, has none");
  require(t.elements > 0, "[profile] tensor '", t.name,
          "' must have an element, has none");
  require(is_time(t.backward) && is_time(t.spread),
          "[profile] the seconds of tensor '", t.name,
          "' must be from 0 to 1e9, got ", t.backward, " with a spread of ",
          t.spread);
  require(t.shape.empty() || product(t.shape) == t.elements,
          "[profile] the shape of tensor '", t.name, "' must have its ",
          t.elements, " elements, has ", product(t.shape));
}

void check_costs(const Profile& profile) {
  std::set<std::string> seen;
  for (const StageCost& c : profile.costs) {
    const bool known = std::find(std::begin(kStages), std::end(kStages),
                                 c.what) != std::end(kStages);
    require(known, "[profile] no stage '", c.what, "'; did you mean '",
            nearest_name(kStages, c.what), "'?");
    require(c.device == "cpu" || c.device == "cuda",
            "[profile] a device must be cpu or cuda, got '", c.device, "'");
    require(c.what != "copy" || c.device != "cpu",
            "[profile] copies are between a GPU and its host, so that their "
            "device must be cuda, got '",
            c.device, "'");
    require(
        seen.insert(concat(c.what, " of ", c.method, " on ", c.device)).second,
        "[profile] must have each cost once, but has ", c.what, " of ",
        c.method, " on ", c.device, " twice");
  }
}

}  // namespace

CostCurve::CostCurve(std::vector<Point> points) : points_(std::move(points)) {
  require(points_.size() >= 2, "needs two points at least to know the slope, ",
          "got ", points_.size());
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const Point& p = points_[i];
    require(std::isfinite(p.size) && p.size >= 0 && is_time(p.seconds),
            "sizes must be 0 or more and seconds from 0 to 1e9, got [", p.size,
            ", ", p.seconds, "]");
    if (i == 0) continue;
    const Point& before = points_[i - 1];
    require(p.size > before.size, "sizes must rise from point to point, got ",
            p.size, " after ", before.size);
    require(
        (p.seconds - before.seconds) / (p.size - before.size) <= kMostSeconds,
        "seconds must rise by at most 1e9 per unit of size, got [", p.size,
        ", ", p.seconds, "] after [", before.size, ", ", before.seconds, "]");
  }
}

double CostCurve::at(double size) const {
  if (points_.empty() || size <= 0) return 0;
  if (size <= points_.front().size) return points_.front().seconds;
  auto right =
      std::upper_bound(points_.begin(), points_.end(), size,
                       [](double x, const Point& p) { return x < p.size; });
  const bool beyond = right == points_.end();
  if (beyond) --right;
  const Point& a = *(right - 1);
  const Point& b = *right;
  const double slope = (b.seconds - a.seconds) / (b.size - a.size);
  if (beyond) return b.seconds + std::max(0.0, slope) * (size - b.size);
  return a.seconds + slope * (size - a.size);
}

double Profile::backward() const {
  double sum = 0;
  for (const TensorProfile& t : tensors) sum += t.backward;
  return sum;
}

std::vector<std::string> Profile::names() const {
  std::vector<std::string> all;
  for (const TensorProfile& t : tensors) all.push_back(t.name);
  return all;
}

const CostCurve* Profile::find(std::string_view what, std::string_view method,
                               std::string_view device) const {
  const CostCurve* any = nullptr;
  for (const StageCost& c : costs) {
    if (c.what != what || c.device != device) continue;
    if (c.method == method) return &c.curve;
    // What is dense is not selected.
    const bool dense = method == "none" && what == "select";
    if (c.method == "*" && !dense) any = &c.curve;
  }
  return any;
}

void check_profile(const Profile& profile) {
  require(!profile.tensors.empty(),
          "[profile] must have a tensor, has none; list the model's");
  require(is_time(profile.forward) && is_time(profile.update),
          "[profile] forward and update must be seconds from 0 to 1e9, got ",
          profile.forward, " and ", profile.update);
  std::set<std::string_view> names;
  for (const TensorProfile& t : profile.tensors) {
    check_tensor(t);
    require(names.insert(t.name).second,
            "[profile] must have each tensor once, but has '", t.name,
            "' twice");
  }
  check_costs(profile);
}

std::string to_json(const Profile& profile) {
  Json json = {{"format", 1},
               {"model", profile.model},
               {"machine", profile.machine},
               {"date", profile.date},
               {"forward", profile.forward},
               {"update", profile.update}};
  json["tensors"] = Json::array();
  for (const TensorProfile& t : profile.tensors) {
    Json row = {{"name", t.name}, {"elements", t.elements}};
    if (!t.shape.empty()) row["shape"] = t.shape;
    row["backward"] = t.backward;
    row["spread"] = t.spread;
    json["tensors"].push_back(std::move(row));
  }
  json["costs"] = Json::array();
  for (const StageCost& c : profile.costs) {
    Json points = Json::array();
    for (const CostCurve::Point& p : c.curve.points()) {
      points.push_back(Json::array({p.size, p.seconds}));
    }
    json["costs"].push_back({{"what", c.what},
                             {"method", c.method},
                             {"device", c.device},
                             {"points", std::move(points)}});
  }
  return json.dump(1) + "\n";
}

Profile profile_from_json(std::string_view text) {
  const Json json = parse_checked(kProfileFile, text);
  const FieldsOf fields{kProfileFile, "a profile", json};
  check_format(fields,
               "with model, forward, tensors and costs; docs/plans.md "
               "has one to start from");
  fields.check({"format", "model", "machine", "date", "forward", "update",
                "tensors", "costs"});
  Profile profile;
  profile.model = fields.text("model");
  profile.machine = fields.text("machine", "");
  profile.date = fields.text("date", "");
  profile.forward = fields.number("forward");
  profile.update = fields.number("update", 0);
  for (const Json& t : fields.array("tensors")) {
    profile.tensors.push_back(tensor_from(t, profile.tensors.size()));
  }
  for (const Json& c : fields.array("costs")) {
    profile.costs.push_back(cost_from(c, profile.costs.size()));
  }
  check_profile(profile);
  return profile;
}

Profile read_profile(const std::string& path) {
  return profile_from_json(read_text_file(kProfileFile, path));
}

}  // namespace sluice
