// reader_seeds FOLDER: writes FOLDER/NAME/* as seeds of NAME_fuzz.

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "sluice/config/config.h"
#include "sluice/plan/plan.h"
#include "sluice/run/metrics_file.h"
#include "sluice/run/run_state.h"
#include "weight_seeds.h"

namespace {

using namespace sluice;

// A rank's part, as sealed_checkpoint() takes it.
constexpr std::string_view kOrigin =
    R"("run": "00112233445566aa", "step": 2, "rank": 0, "ranks": 1, )";
constexpr std::string_view kRankPart =
    R"("rules": [2, 1], "collectives": [1]}, "tensors": [)"
    R"({"name": "residual", "dtype": "float32", "dims": [3], "offset": 0},)"
    R"({"name": "momentum", "dtype": "float32", "dims": [0], "offset": 64},)"
    R"({"name": "rules", "dtype": "uint8", "dims": [3], "offset": 64},)"
    R"({"name": "collectives", "dtype": "float64", "dims": [1],)"
    R"( "offset": 128}]})";

Plan plan_of(const std::vector<std::vector<std::size_t>>& buckets) {
  Plan plan;
  plan.name = "layerwise";
  for (const auto& tensors : buckets) {
    plan.buckets.emplace_back();
    plan.buckets.back().tensors = tensors;
    plan.buckets.back().density = 0.25;
  }
  return plan;
}

std::string npy(std::string_view shape, std::string_view order,
                std::size_t values) {
  std::string header = "{'descr': '<f4', 'fortran_order': ";
  header.append(order).append(", 'shape': ").append(shape).append(", }\n");
  std::string file = "\x93NUMPY";
  file += {'\1', '\0', static_cast<char>(header.size()), '\0'};
  return file + header + std::string(4 * values, '\1');
}

class Writer {
 public:
  explicit Writer(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void add(const char* name, const std::string& seed) {
    std::filesystem::create_directories(folder_ / name);
    std::ofstream out(folder_ / name / std::to_string(count_++),
                      std::ios::binary);
    out << seed;
    out.close();
    ok_ = ok_ && out.good();
  }
  bool ok() const { return ok_; }

 private:
  std::filesystem::path folder_;
  std::size_t count_ = 0;
  bool ok_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: reader_seeds FOLDER\n", stderr);
    return 2;
  }
  Writer writer(argv[1]);
  const std::vector<std::string> names = {"a", "b.weight", "b.bias"};
  writer.add("plan", to_json(plan_of({{0, 1, 2}}), names));
  writer.add("plan", to_json(plan_of({{2}, {1}, {0}}), names));
  writer.add("profile", R"({"format": 1, "model": "m", "forward": 1, )"
                        R"("tensors": [{"name": "a", "elements": 6, )"
                        R"("shape": [2, 3], "backward": 0.5}], "costs": )"
                        R"([{"what": "select", "method": "topk", )"
                        R"("points": [[1, 0.5], [9, 2]]}]})");
  writer.add("profile", R"({"format": 1, "alpha": 1, "beta": 2, "machine": )"
                        R"({"ranks": 8, "alpha": 3, "beta": 4}})");
  writer.add("profile", R"({"format": 1, "times": [{"bytes": 0, )"
                        R"("seconds": 1}, {"bytes": 10, "seconds": 6}]})");
  writer.add("config", to_json(TrainConfig()));
  writer.add("config", R"({"lr": 0.5, "model": "mlp:widths=3-4"})");
  for (const auto kind : {MetricsLine::kTrain, MetricsLine::kEval}) {
    MetricsLine line;
    line.kind = kind;
    writer.add("metrics", to_json(line));
  }
  for (const char* files :
       {"", R"("model.ckpt": "5ad000000000bb01")",
        R"("model.ckpt": "0000000000000001", "rank-0.ckpt": "ff")"}) {
    std::string manifest = R"({"version": 1, "run": "00112233445566aa", )";
    manifest.append(R"("step": 20, "ranks": 2, "files": {)");
    writer.add("manifest", manifest.append(files).append("}}"));
  }
  RunState state;
  state.run = "00112233445566aa";
  state.plan = to_json(plan_of({{0, 1, 2}}), names);
  state.schedule = {0.1, 0.01};
  writer.add("model",
             R"({"header": )" + to_json(state) + R"(, "tensors": []})" + "\n");
  writer.add("npy", npy("(3,)", "False", 3));
  writer.add("npy", npy("(2, 3, 2)", "True", 12));
  for (const std::string_view origin : {kOrigin, std::string_view()}) {
    std::string part = "1";  // odd: to be sealed
    part.append(R"({"header": {)").append(origin).append(kRankPart);
    part.append("\n");
    for (const std::size_t bytes : {12, 3, 8}) {
      part.append(bytes, '\2').append(64 - bytes, '\0');
    }
    writer.add("checkpoint", part);
  }
  for (const char* dims : {"1e123", "[1e123]", "[0.5]", "[-1]"}) {
    writer.add(
        "checkpoint",
        std::string(R"(1{"header": {}, "tensors": [{"name": "residual",)")
            .append(R"( "dtype": "float32", "dims": )")
            .append(dims)
            .append(R"(, "offset": 0}]})"
                    "\n"));
  }
  for (const fuzz::Seed& seed : fuzz::weight_seeds()) {
    writer.add(seed.fuzzer, seed.bytes);
  }
  return writer.ok() ? 0 : 1;
}
