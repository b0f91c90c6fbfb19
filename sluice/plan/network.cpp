#include "sluice/plan/network.h"

#include <algorithm>
#include <vector>

#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/plan/json_fields.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNetworkFile = "network";

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A line through times of messages: medians, which one disturbed time does not
// move far.
Network fit(const Json& times) {
  struct Point {
    double bytes;
    double seconds;
  };
  std::vector<Point> points;
  for (const Json& t : times) {
    const FieldsOf fields{kNetworkFile, concat("time ", points.size()), t};
    fields.check({"bytes", "seconds"});
    points.push_back({fields.number("bytes"), fields.number("seconds")});
  }
  std::vector<double> slopes;
  for (const Point& a : points) {
    for (const Point& b : points) {
      if (b.bytes <= a.bytes) continue;
      slopes.push_back((b.seconds - a.seconds) / (b.bytes - a.bytes));
    }
  }
  require(!slopes.empty(), "[network] needs times of two sizes at least to ",
          "tell alpha from beta, has ", points.size(),
          points.size() == 1 ? " time" : " times of one");
  const double beta = std::max(0.0, median(slopes));
  std::vector<double> starts;
  for (const Point& p : points) starts.push_back(p.seconds - beta * p.bytes);
  return {std::max(0.0, median(starts)), beta};
}

}  // namespace

Topology network_from_json(std::string_view text) {
  const Json json = parse_checked(kNetworkFile, text);
  const FieldsOf fields{kNetworkFile, "a network", json};
  check_format(fields, "as sluice probe writes it");
  fields.check({"format", "engine", "network", "date", "workers", "hosts",
                "alpha", "beta", "spread", "times", "machine", "pairs", "ring",
                "allreduce", "allgather"});
  if (fields.has("workers")) fields.count("workers");
  Topology out;
  if (fields.has("times")) {
    require(!fields.has("alpha") && !fields.has("beta"),
            "[network] must have alpha and beta, or times to find them from, "
            "has both");
    out.between = fit(fields.array("times"));
  } else {
    out.between = {fields.number("alpha"), fields.number("beta")};
  }
  if (fields.has("machine")) {
    const FieldsOf machine{kNetworkFile, "the machine", json["machine"]};
    machine.check({"ranks", "alpha", "beta"});
    out.per_machine = static_cast<double>(machine.count("ranks"));
    out.inside = {machine.number("alpha"), machine.number("beta")};
  }
  return out;
}

std::string to_json(const Topology& topology, std::size_t workers,
                    std::string_view network, std::string_view date) {
  Json json = {{"format", 1},
               {"network", network},
               {"date", date},
               {"workers", workers},
               {"alpha", topology.between.alpha},
               {"beta", topology.between.beta}};
  if (topology.two_level()) {
    json["machine"] = {{"ranks", topology.per_machine},
                       {"alpha", topology.inside.alpha},
                       {"beta", topology.inside.beta}};
  }
  return json.dump(2) + "\n";
}

Topology read_network(const std::string& path) {
  return network_from_json(read_text_file(kNetworkFile, path));
}

}  // namespace sluice
