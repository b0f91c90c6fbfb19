#include "sluice/run/summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace sluice {

std::string to_json(const TrainSummary& s) {
  const nlohmann::ordered_json json = {
      {"folder", s.folder},
      {"model", s.model},
      {"parameters", s.parameters},
      {"ranks", s.ranks},
      {"gpu_link", s.gpu_link},
      {"steps", s.steps},
      {"epochs", s.epochs},
      {"seconds", s.seconds},
      {"loss", s.loss},
      {"eval_loss", s.eval_loss},
      {"eval_accuracy", s.eval_accuracy},
      {"best_accuracy", s.best_accuracy},
      {"samples_per_s", s.samples_per_s},
      {"step_s", s.step_s},
      {"exposed_s", s.exposed_s},
      {"bytes_per_step", s.bytes_per_step},
      {"density", s.density},
      {"k_hat_over_k", s.k_hat_over_k},
      {"memory_bytes", s.memory_bytes},
      {"skipped", s.skipped},
      {"replaced", s.replaced},
      {"weights", fmt::format("{:016x}", s.weights)},
      {"stopped", s.stopped},
      {"checkpoint", s.checkpoint}};
  return json.dump(2) + "\n";
}

}  // namespace sluice
