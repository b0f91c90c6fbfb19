#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sluice/cli/commands.h"
#include "sluice/cli/plan/job_options.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/table.h"
#include "sluice/core/error.h"
#include "sluice/plan/planner.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  JobOptions job;
  std::vector<double> densities = {0.01};
  bool json = false;
};

// Below that a gain is not worth an approximation: predictions are not exact.
constexpr double kWorthIt = 1.05;

// The sparsifiers whose selection the profile knows by name, else the one
// asked for.
std::vector<std::string> methods_of(const Job& job) {
  std::vector<std::string> methods;
  for (const StageCost& c : job.profile.costs) {
    if (c.what != "select" || c.device != job.device) continue;
    if (c.method != "*" && c.method != "none") methods.push_back(c.method);
  }
  if (methods.empty()) methods.push_back(job.sparse.sparsifier);
  return methods;
}

Json choice(const Job& job, const std::string& method) {
  const Plan plan = make_planner("auto")->make(job);
  Json row = {{"method", method}, {"density", job.density}};
  row.update(summary_of(plan, simulate(plan, job)));
  return row;
}

// The fastest that sends some buckets sparse; null if none does.
const Json* best_sparse(const std::vector<Json>& rows) {
  const Json* best = nullptr;
  for (const Json& row : rows) {
    if (row["sparse_buckets"] == 0) continue;
    if (best == nullptr || row["iteration"] < (*best)["iteration"]) best = &row;
  }
  return best;
}

std::vector<std::string> commands(const Options& o, const Job& job,
                                  const Json* sparse) {
  const std::string train = fmt::format(
      "sluice train --model {} --workers {}{}", job.profile.model, job.ranks,
      job.device == "cpu" ? "" : " --device " + job.device);
  if (sparse == nullptr) {
    return {train + " --sparsifier none --dense-collective dense-bf16"};
  }
  const std::string how = fmt::format("--sparsifier {} --density {}",
                                      (*sparse)["method"].get<std::string>(),
                                      (*sparse)["density"].get<double>());
  return {fmt::format("sluice plan make --profile {} --net {} --workers {} {} "
                      "--device {} --out plan.json",
                      o.job.profile, o.job.net, job.ranks, how, job.device),
          fmt::format("{} {} --plan plan.json", train, how)};
}

std::vector<Json> all_choices(const Options& o, const Job& job) {
  std::vector<Json> rows;
  for (const char* collective : {"dense", "dense-bf16"}) {
    Json made = choice(dense_job(job, collective), collective);
    made["density"] = 1;
    rows.push_back(std::move(made));
  }
  for (const std::string& method : methods_of(job)) {
    for (const double density : o.densities) {
      Job sparse = job;
      sparse.sparse.sparsifier = method;
      sparse.density = density;
      rows.push_back(choice(sparse, method));
    }
  }
  return rows;
}

void print_advice(const Job& job, const std::vector<Json>& rows,
                  const Json& advice) {
  fmt::print("{} on {} workers, {}; computing takes {:.3f} ms\n",
             job.profile.model, job.ranks, describe(job.network),
             1e3 * rows[0]["compute"].get<double>());
  show_rows(
      rows,
      {{{"method", "method", ""},
        {"density", "density", "{:.4g}"},
        {"buckets", "buckets", "{}"},
        {"sparse_buckets", "sparse", "{}"},
        {"iteration", "step ms", "{:.3f}", 1e3},
        {"exposed_exchange", "waits ms", "{:.3f}", 1e3},
        {"exposed_work", "work ms", "{:.3f}", 1e3},
        {"free_compression", "free ms", "{:.3f}", 1e3},
        {"bytes", "MB", "{:.3f}", 1e-6}},
       "all simulated. sparse: buckets that are; step ms: an iteration; waits "
       "ms, work ms: of it, waiting for exchanges, and selecting and applying "
       "that backward does not hide; free ms: if compressing took no time; "
       "MB: received by a worker"});
  fmt::print("{}\n", advice["verdict"].get<std::string>());
  for (const Json& command : advice["commands"]) {
    fmt::print("  {}\n", command.get<std::string>());
  }
}

void run(const Options& o) {
  JobOptions options = o.job;
  require(!o.densities.empty(), "[advise] --densities must be given a number");
  for (const double density : o.densities) {
    options.density = density;
    make_job(options);
  }
  const Job job = make_job(options);
  const std::vector<Json> rows = all_choices(o, job);
  const Json* sparse = best_sparse(rows);
  const double dense = rows[0]["iteration"].get<double>();
  const double bf16 = rows[1]["iteration"].get<double>();
  const double best =
      sparse != nullptr ? (*sparse)["iteration"].get<double>() : dense;
  const double gain = std::min(dense, bf16) / best;
  const bool worth = sparse != nullptr && gain >= kWorthIt;
  const std::string verdict =
      worth ? fmt::format(
                  "worth it: {} at {:.4g} % takes {:.3f} ms, {:.2f} "
                  "times as fast as dense, {:.2f} as dense-bf16",
                  (*sparse)["method"].get<std::string>(),
                  100 * (*sparse)["density"].get<double>(), 1e3 * best,
                  dense / best, bf16 / best)
            : fmt::format(
                  "not worth it: dense-bf16 waits {:.3f} ms of {:.3f}, "
                  "and no method gains {:.0f} %",
                  1e3 * rows[1]["exposed_exchange"].get<double>(), 1e3 * bf16,
                  100 * (kWorthIt - 1));
  const Json advice = {{"model", job.profile.model},
                       {"workers", job.ranks},
                       {"worth_it", worth},
                       {"speedup_over_dense", dense / best},
                       {"speedup_over_dense_bf16", bf16 / best},
                       {"verdict", verdict},
                       {"commands", commands(o, job, worth ? sparse : nullptr)},
                       {"choices", rows}};
  if (o.json) {
    fmt::print("{}\n", advice.dump(2));
    return;
  }
  print_advice(job, rows, advice);
}

}  // namespace

void add_advise(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* advise = app.add_subcommand(
      "advise",
      "Whether to compress: how long dense training waits for the network, "
      "what methods and plans would take, and the command to run");
  add_job_options(*advise, o->job);
  add_workers(*advise, o->job);
  advise
      ->add_option("--densities,--density", o->densities,
                   "Shares of entries to send, with commas")
      ->delimiter(',');
  advise->add_flag("--json", o->json, "Print JSON");
  add_examples(*advise, {"sluice advise --profile profile.json --net "
                         "50us,1Gbit --workers 16 --densities 0.001,0.01"});
  advise->callback([o] { run(*o); });
}

}  // namespace sluice
