#include "sluice/report/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sluice/config/config.h"
#include "sluice/config/recipe.h"
#include "sluice/report/settings.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// docs/choosing.md: below a tenth stay dense; what lies between them depends on
// what backward hides.
constexpr double kMuch = 0.25;
constexpr double kLittle = 0.1;
// Seeds of the jobs in docs/results.md differ by 0.5 points at most.
constexpr double kNoise = 0.005;
constexpr double kOff = 0.3;  // of k_hat / k

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

std::string lower_density(const Json& config) {
  return fmt::format("{:g}", density_of(config) / 10);
}

// Waiting, of the method that waits least: what the network still takes.
std::string advise_dense(const MethodResult& r, bool alone) {
  if (r.exposed_share > kMuch) {
    return fmt::format(
        "{} waits {} of every step for the exchange.{}", r.name,
        percent(r.exposed_share),
        alone ? " Sending less can gain up to that: try --collective "
                "dense-bf16 first, which changes nothing else, then "
                "--sparsifier topk --density 0.01 without momentum."
              : "");
  }
  if (r.exposed_share < kLittle) {
    return fmt::format(
        "{} waits only {} of a step: dense is enough here. A sparse method or "
        "a faster network could gain at most that.",
        r.name, percent(r.exposed_share));
  }
  return fmt::format(
      "{} waits {} of a step: dense-bf16 may be all that is needed. `sluice "
      "compare --methods dense,dense-bf16,topk` tells.",
      r.name, percent(r.exposed_share));
}

std::string advise_sparse(const MethodResult& r) {
  if (r.exposed_share > kMuch) {
    return fmt::format(
        "{} still waits {} of a step. If it is the network: --density {}, or "
        "--collective oktopk, which sends about half and cuts the sum. If "
        "there are more workers than cores, they wait for each other, and "
        "nothing that is sent changes that.",
        r.name, percent(r.exposed_share), lower_density(r.config));
  }
  if (r.exposed_share < kLittle) {
    return fmt::format(
        "{} waits {} of a step: a lower density would gain nothing, and a "
        "higher one costs little time. See what dense and dense-bf16 take "
        "before settling: `sluice compare --methods dense,dense-bf16,{}`.",
        r.name, percent(r.exposed_share), method_of(r.config));
  }
  return fmt::format(
      "{} waits {} of a step, which is the most that --density {} "
      "could gain.",
      r.name, percent(r.exposed_share), lower_density(r.config));
}

std::string momentum_note(const MethodResult& r) {
  try {
    TrainConfig config;
    change_by_json(config, "report", r.config.dump());
    const std::string note = recipe_note(config);
    return note.empty() ? note : r.name + ": " + note + ".";
  } catch (const std::exception&) {
    return {};  // of another version
  }
}

std::string budget_note(const MethodResult& r) {
  if (std::abs(r.k_hat_over_k - 1) < kOff || sends_all(r.config)) return {};
  return fmt::format(
      "{} sends {:.2f} times its budget (k\u0302/k). {} `topk` is exact.",
      r.name, r.k_hat_over_k,
      r.k_hat_over_k > 1
          ? "Either its estimate is high, or rows are shorter than 1 / density."
          : "Either its estimate is low, or entries are zero.");
}

// The soonest that is not behind; null if there is none.
const MethodResult* best_of(const std::vector<MethodResult>& results) {
  const MethodResult* best = nullptr;
  for (const MethodResult& r : results) {
    const bool good = r.speedup && r.behind && *r.behind <= kNoise + r.spread;
    if (good && (best == nullptr || *r.speedup > *best->speedup)) best = &r;
  }
  return best != nullptr && *best->speedup > 1.05 ? best : nullptr;
}

std::string choice(const std::vector<MethodResult>& results,
                   const ScoreKind& kind) {
  const MethodResult* best = best_of(results);
  if (best != nullptr) {
    return fmt::format(
        "Take {}: it comes to the target {:.1f} times as soon as dense, with a "
        "final {} that is not worse than seeds differ.",
        best->name, *best->speedup, kind.label);
  }
  const bool compared =
      std::any_of(results.begin(), results.end(),
                  [](const MethodResult& r) { return r.behind.has_value(); });
  if (!compared) return {};
  return "No method here comes to the target clearly sooner than dense: stay "
         "dense, or see docs/choosing.md.";
}

std::string behind_note(const std::vector<MethodResult>& results,
                        const ScoreKind& kind) {
  std::string names;
  std::size_t count = 0;
  for (const MethodResult& r : results) {
    if (!r.behind || *r.behind <= 2 * kNoise + r.spread) continue;
    if (++count > 6) continue;
    names += fmt::format("{}{} ({:.1f} {})", names.empty() ? "" : ", ", r.name,
                         100 * *r.behind, kind.percent ? "points" : "%");
  }
  if (count == 0) return {};
  if (count > 6) names += fmt::format(" and {} more", count - 6);
  return "Behind dense by more than seeds differ: " + names +
         ". A higher density, no momentum beside residuals and a warm-up are "
         "what helps most; docs/choosing.md, \"Why is my accuracy lower\", has "
         "the list.";
}

}  // namespace

std::vector<std::string> next_steps(const std::vector<MethodResult>& results,
                                    const ScoreKind& kind) {
  std::vector<std::string> all;
  const auto add = [&](std::string text) {
    const bool known = std::find(all.begin(), all.end(), text) != all.end();
    if (!text.empty() && !known) all.push_back(std::move(text));
  };
  add(choice(results, kind));
  add(behind_note(results, kind));
  const bool alone = results.size() == 1;
  const MethodResult* best = best_of(results);
  for (const MethodResult& r : results) {
    if (r.step_s <= 0) continue;
    const bool dense = sends_all(r.config);
    if (dense && (alone || method_of(r.config) == "dense")) {
      add(advise_dense(r, alone));
    } else if (!dense && (alone || &r == best)) {
      add(advise_sparse(r));
    }
  }
  for (const MethodResult& r : results) {
    if (all.size() >= 8) break;
    add(momentum_note(r));
    add(budget_note(r));
  }
  const bool one_seed =
      std::all_of(results.begin(), results.end(),
                  [](const MethodResult& r) { return r.runs < 2; });
  if (one_seed && !alone) {
    add("One seed each: differences below half a point mean nothing. --seeds "
        "1,2,3 says more.");
  }
  if (all.empty()) {
    add("There are not enough numbers yet to say.");
  }
  return all;
}

std::vector<std::string> next_steps_of_run(const RunRecord& run,
                                           const std::string& folder) {
  std::vector<std::string> all;
  if (!run.finished && run.begun) {
    all.push_back(
        fmt::format("The run is not at its end. If it is not running any more: "
                    "sluice train --resume {}",
                    folder));
  }
  if (run.skipped > 0) {
    all.push_back(
        fmt::format("{:.0f} steps were skipped, since a gradient was not "
                    "finite: a lower --lr or --clip 1 helps.",
                    run.skipped));
  }
  const auto& e = run.evaluations;
  if (run.finished && e.size() >= 5) {
    const double gain =
        std::abs(e.back().score - e[e.size() * 4 / 5 - 1].score);
    const bool better =
        run.kind->better(e.back().score, e[e.size() * 4 / 5 - 1].score);
    const double much =
        run.kind->percent ? kNoise : 0.02 * std::abs(e.back().score);
    if (better && gain > much) {
      all.push_back(fmt::format(
          "The {} was still getting better in the last fifth of the run: more "
          "epochs would help.",
          run.kind->label));
    }
  }
  return all;
}

}  // namespace sluice
