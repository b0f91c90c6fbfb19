#include "sluice/run/metrics_file.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sluice/core/atomic_file.h"
#include "sluice/core/input_file.h"
#include "sluice/core/json_check.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
using Line = MetricsLine;

constexpr std::string_view kLoss = "loss";

constexpr MetricsField kTraining[] = {{kLoss.data(), &Line::loss},
                                      {"lr", &Line::lr},
                                      {"samples_per_s", &Line::samples_per_s},
                                      {"density", &Line::density},
                                      {"target_density", &Line::target_density},
                                      {"k_hat_over_k", &Line::k_hat_over_k},
                                      {"bytes_per_step", &Line::bytes_per_step},
                                      {"step_s", &Line::step_s},
                                      {"exposed_s", &Line::exposed_s},
                                      {"select_s", &Line::select_s},
                                      {"wire_s", &Line::wire_s},
                                      {"skipped", &Line::skipped},
                                      {"replaced", &Line::replaced}};

constexpr MetricsField kEvaluation[] = {{kLoss.data(), &Line::loss},
                                        {"samples", &Line::samples},
                                        {"replaced", &Line::replaced}};

void read_number(const Json& json, const char* name, double& value) {
  const auto it = json.find(name);
  if (it != json.end() && it->is_number()) value = it->get<double>();
}

// Null if it is no JSON.
Json parse(std::string_view text) {
  return is_sound_json(text) ? Json::parse(text) : Json();
}

std::optional<Line> line_from(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const Json kind = json.value("kind", Json());
  const Json step = json.value("step", Json());
  if ((kind != "train" && kind != "eval") || !step.is_number_unsigned()) {
    return std::nullopt;
  }
  Line line;
  line.kind = kind == "train" ? Line::kTrain : Line::kEval;
  line.step = step;
  read_number(json, "epoch", line.epoch);
  read_number(json, "time_s", line.time_s);
  for (const auto& [name, value] : metrics_fields(line.kind)) {
    read_number(json, name, line.*value);
  }
  // In the order of the file: the one that counts is the first.
  for (const auto& [name, value] : json.items()) {
    for (const ScoreKind& score : score_kinds()) {
      if (score.name == name && value.is_number()) {
        line.scores.push_back({&score, value.get<double>()});
      }
    }
  }
  return line;
}

bool is_known(const std::string& name, Line::Kind kind) {
  const auto named = [&](const auto& item) { return item.name == name; };
  const auto fields = metrics_fields(kind);
  return name == "kind" || name == "step" || name == "epoch" ||
         name == "time_s" || std::any_of(fields.begin(), fields.end(), named) ||
         std::any_of(score_kinds().begin(), score_kinds().end(), named);
}

// Which keys are not those of this version.
void compare_keys(const Json& json, Line::Kind kind, MetricsReading& reading) {
  constexpr std::size_t kMost = 20;  // a file may have anything
  for (const auto& field : metrics_fields(kind)) {
    if (!json.contains(field.name)) reading.missing.insert(field.name);
  }
  for (const auto& [name, value] : json.items()) {
    if (reading.unknown.size() < kMost && !is_known(name, kind)) {
      reading.unknown.insert(name);
    }
  }
}

}  // namespace

std::span<const MetricsField> metrics_fields(Line::Kind kind) {
  if (kind == Line::kTrain) return kTraining;
  return kEvaluation;
}

std::string to_json(const Line& line) {
  Json json = {{"kind", line.kind == Line::kTrain ? "train" : "eval"},
               {"step", line.step},
               {"epoch", line.epoch},
               {"time_s", line.time_s}};
  for (const auto& [name, value] : metrics_fields(line.kind)) {
    json[name] = line.*value;
    if (name != kLoss) continue;
    for (const NamedScore& s : line.scores) json[s.kind->name] = s.value;
  }
  return json.dump();
}

std::optional<Line> metrics_line_from_json(std::string_view text) {
  return line_from(parse(text));
}

std::vector<Line> read_metrics(const std::string& path) {
  return read_all_of_metrics(path).lines;
}

MetricsReading read_all_of_metrics(const std::string& path) {
  MetricsReading reading;
  if (!why_no_file(path).empty()) return reading;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    const Json json = parse(text);
    const auto line = line_from(json);
    if (!line) {
      ++reading.unreadable;
      continue;
    }
    compare_keys(json, line->kind, reading);
    reading.lines.push_back(*line);
  }
  return reading;
}

void forget_metrics_after(const std::string& path, std::uint64_t step) {
  if (!why_no_file(path).empty()) return;
  std::ifstream file(path);
  std::string kept;
  for (std::string text; std::getline(file, text);) {
    const auto line = metrics_line_from_json(text);
    if (line && line->step <= step) kept += text + "\n";
  }
  write_text(path, kept);
}

}  // namespace sluice
