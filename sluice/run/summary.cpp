#include "sluice/run/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace sluice {

std::string to_json(const TrainSummary& s) {
  nlohmann::ordered_json json = {{"folder", s.folder},
                                 {"model", s.model},
                                 {"parameters", s.parameters},
                                 {"ranks", s.ranks},
                                 {"gpu_link", s.gpu_link},
                                 {"steps", s.steps},
                                 {"epochs", s.epochs},
                                 {"seconds", s.seconds},
                                 {"loss", s.loss},
                                 {"eval_loss", s.eval_loss}};
  for (const NamedScore& score : s.eval_scores) {
    json["eval_" + std::string(score.kind->name)] = score.value;
  }
  if (!s.eval_scores.empty()) {
    json["best_" + std::string(s.eval_scores[0].kind->name)] = s.best_score;
  }
  const nlohmann::ordered_json rest = {
      {"unit", s.unit},
      {"samples_per_s", s.samples_per_s},
      {"step_s", s.step_s},
      {"exposed_s", s.exposed_s},
      {"bytes_per_step", s.bytes_per_step},
      {"density", s.density},
      {"k_hat_over_k", s.k_hat_over_k},
      {"trained_dense", s.trained_dense},
      {"memory_bytes", s.memory_bytes},
      {"skipped", s.skipped},
      {"replaced", s.replaced},
      {"weights", fmt::format("{:016x}", s.weights)},
      {"stopped", s.stopped},
      {"checkpoint", s.checkpoint}};
  json.update(rest);
  return json.dump(2) + "\n";
}

std::string dense_label(double share) {
  if (!(share > 0.5)) return {};
  // A share below 1 is never said to be all.
  return share >= 1 ? "trained dense"
                    : fmt::format("trained {:.0f} % dense",
                                  std::min(99.0, 100 * share));
}

}  // namespace sluice
