// weights_tool list PATH: the tensors of a file or folder as JSON, with all
// values. weights_tool copy PATH NEW: as a file of safetensors.
// weights_tool import KIND PATH SPECS: imports for tensors of {name: shape}.
// weights_tool round KIND PATH SPECS FOLDER: imports, and exports to a folder
// as Hugging Face saves it.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "sluice/core/atomic_file.h"
#include "sluice/core/half.h"
#include "sluice/core/input_file.h"
#include "sluice/weights/export.h"
#include "sluice/weights/import.h"
#include "sluice/weights/safetensors.h"

namespace {

using namespace sluice;
using Json = nlohmann::json;

template <class T>
Json as_numbers(const WeightTensor& tensor) {
  Json out = Json::array();
  for (std::size_t i = 0; i < tensor.bytes.size(); i += sizeof(T)) {
    T value{};
    std::memcpy(&value, tensor.bytes.data() + i, sizeof(T));
    out.push_back(value);
  }
  return out;
}

Json values_of(const WeightTensor& tensor) {
  switch (tensor.type) {
    case WeightType::kF64:
      return as_numbers<double>(tensor);
    case WeightType::kI64:
      return as_numbers<std::int64_t>(tensor);
    case WeightType::kI32:
      return as_numbers<std::int32_t>(tensor);
    case WeightType::kI16:
      return as_numbers<std::int16_t>(tensor);
    case WeightType::kI8:
      return as_numbers<std::int8_t>(tensor);
    case WeightType::kU8:
    case WeightType::kBool:
      return as_numbers<std::uint8_t>(tensor);
    default:
      break;
  }
  std::vector<float> values(
      static_cast<std::size_t>(*elements_of(tensor.dims)));
  materialize({tensor.name, tensor.dims, {tensor}, false}, values);
  return values;
}

void list(const Weights& weights) {
  Json out = {{"format", weights.format},
              {"notes", weights.notes},
              {"metadata", weights.metadata},
              {"tensors", Json::object()}};
  for (const WeightTensor& tensor : weights.tensors) {
    out["tensors"][tensor.name] = {{"dtype", name_of(tensor.type)},
                                   {"shape", tensor.dims},
                                   {"values", values_of(tensor)}};
  }
  std::puts(out.dump().c_str());
}

struct Imported {
  ImportReport report;
  std::vector<TensorSpec> specs;
  std::vector<std::vector<float>> values;  // of those that fit
};

Imported import(const char* kind, const Weights& weights, const char* path) {
  std::vector<TensorSpec> specs;
  const Json shapes = Json::parse(read_text_file("weights_tool", path));
  for (const auto& [name, dims] : shapes.items()) {
    specs.push_back({name, dims.get<Dims>()});
  }
  const ImportPlan plan = plan_import(kind, specs, weights);
  Imported out = {plan.report, {}, {}};
  for (const Assignment& assignment : plan.assignments) {
    out.specs.push_back({assignment.name, assignment.dims});
    auto& values = out.values.emplace_back(
        static_cast<std::size_t>(*elements_of(assignment.dims)));
    materialize(assignment, values);
  }
  return out;
}

void show(const Imported& imported) {
  Json out = {{"report", Json::parse(imported.report.json())},
              {"tensors", Json::object()}};
  for (std::size_t i = 0; i < imported.specs.size(); ++i) {
    out["tensors"][imported.specs[i].name] = imported.values[i];
  }
  std::puts(out.dump().c_str());
}

void round_trip(const char* kind, const Weights& weights,
                const Imported& imported, const std::string& folder) {
  imported.report.require_body();
  ModelConfig config = describe(kind, imported.specs);
  config.heads = weights.config.value().heads;
  config.norm_epsilon = weights.config->norm_epsilon;
  config.labels = weights.config->labels;
  config.vocabulary = weights.config->vocabulary;
  write_text(folder + "/config.json", to_json(config));
  std::vector<NamedValues> tensors;
  for (std::size_t i = 0; i < imported.specs.size(); ++i) {
    tensors.push_back({imported.specs[i], imported.values[i]});
  }
  ExportOptions options;
  options.kind = kind;
  options.vocabulary = config.vocabulary.value_or(0);
  export_weights(folder + "/model.safetensors", options, tensors);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string command = argc > 2 ? argv[1] : "";
  if (command == "list") {
    list(open_weights(argv[2]));
  } else if (command == "copy" && argc == 4) {
    const Weights weights = open_weights(argv[2]);
    write_safetensors(argv[3], weights.tensors, weights.metadata);
  } else if (command == "import" && argc == 5) {
    show(import(argv[2], open_weights(argv[3]), argv[4]));
  } else if (command == "round" && argc == 6) {
    const Weights weights = open_weights(argv[3]);
    round_trip(argv[2], weights, import(argv[2], weights, argv[4]), argv[5]);
  } else {
    std::fputs("usage: weights_tool list|copy|import|round ...\n", stderr);
    return 2;
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
