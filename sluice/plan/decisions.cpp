#include "sluice/plan/decisions.h"

#include <algorithm>

#include "sluice/core/error.h"
#include "sluice/plan/json_fields.h"
#include "sluice/plan/plan_json.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

Json later_to_json(const Decision& d, std::span<const std::string> names) {
  Json json = {{"step", d.step}, {"why", d.why}};
  if (d.network) {
    json["network"] = {{"alpha", d.network->alpha}, {"beta", d.network->beta}};
  }
  json.update(plan_to_json(d.plan, names));
  return json;
}

Decision later_of_json(const Json& json, const std::string& what,
                       std::span<const std::string> names) {
  Decision d;
  d.plan = plan_of_json(json, what, names, {"step", "why", "network"});
  const FieldsOf fields{"plan", what, json};
  d.step = fields.count("step");
  d.why = fields.text("why", "");
  if (fields.has("network")) {
    const FieldsOf network{"plan", "the network of " + what, json["network"]};
    network.check({"alpha", "beta"});
    d.network = Network{network.number("alpha"), network.number("beta")};
  }
  return d;
}

}  // namespace

std::string to_json(const Decisions& decisions,
                    std::span<const std::string> names) {
  Json json = {{"version", kPlanVersion}};
  json.update(plan_to_json(decisions.at(0).plan, names));
  for (std::size_t i = 1; i < decisions.size(); ++i) {
    json["later"].push_back(later_to_json(decisions[i], names));
  }
  return json.dump(2) + "\n";
}

Decisions decisions_from_json(std::string_view text,
                              std::span<const std::string> names) {
  Decisions out;
  read_plan_json(text, [&](const Json& json) {
    check_plan_version(json);
    out.emplace_back();
    out[0].plan = plan_of_json(json, "a plan", names, {"version", "later"});
    for (const Json& later : json.value("later", Json::array())) {
      const std::string what = concat("decision ", out.size());
      out.push_back(later_of_json(later, what, names));
      const std::uint64_t before = out[out.size() - 2].step;
      require(out.back().step > before, "[plan] steps of decisions must rise, ",
              "but ", what, " is of step ", out.back().step, " after ", before);
    }
  });
  return out;
}

const Decision& decision_at(const Decisions& decisions, std::uint64_t step) {
  const auto later =
      std::find_if(decisions.begin(), decisions.end(),
                   [&](const Decision& d) { return d.step > step; });
  return *(later - 1);
}

std::string longer_record(const std::string& first, const std::string& second) {
  try {
    const std::vector<std::string> names = plan_tensors(first);
    const Decisions a = decisions_from_json(first, names);
    const Decisions b = decisions_from_json(second, names);
    const auto same = [](const Decision& x, const Decision& y) {
      return x.step == y.step && x.plan == y.plan;
    };
    const bool goes_on =
        a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin(), same);
    return goes_on ? second : first;
  } catch (const std::invalid_argument&) {
    return first;
  }
}

}  // namespace sluice
