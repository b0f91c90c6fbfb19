#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/plan/job_options.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/table.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/plan/planner.h"
#include "sluice/report/plot.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  JobOptions job;
  std::vector<std::string> workers = {"2..1024"};
  std::vector<std::string> planners = {"auto", "omgs-exact", "layerwise",
                                       "single"};
  std::vector<std::string> methods;
  std::string plot;
  OutputOptions output;
};

std::int64_t parse_count(std::string_view text, std::string_view whole) {
  std::int64_t value = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && rest == text.data() + text.size() &&
              value >= 1 && value <= std::int64_t{1} << 31,
          "[simulate] --workers must be numbers from 1 to 2^31, as in "
          "2..65536 or 4,16,64, got '",
          whole, "'");
  return value;
}

// "2..64" doubles from 2 to 64.
std::vector<std::int64_t> parse_workers(const std::vector<std::string>& texts) {
  std::vector<std::int64_t> all;
  for (const std::string& text : texts) {
    const std::size_t dots = text.find("..");
    const std::string_view view = text;
    const std::int64_t first = parse_count(view.substr(0, dots), text);
    const std::int64_t last = dots == std::string::npos
                                  ? first
                                  : parse_count(view.substr(dots + 2), text);
    require(first <= last, "[simulate] --workers must go up, got '", text, "'");
    for (std::int64_t p = first; p <= last; p *= 2) all.push_back(p);
  }
  return all;
}

// A collective that sums vectors, or a sparsifier.
Job method_job(const JobOptions& options, const std::string& method) {
  for (const CostRow& row : collective_costs()) {
    if (row.dense && row.name == method) {
      return dense_job(make_job(options), method);
    }
  }
  JobOptions o = options;
  o.sparsifier = method;
  return make_job(o);
}

std::vector<Json> sweep(const Options& o) {
  std::vector<std::unique_ptr<Planner>> planners;
  for (const std::string& text : split_specs(o.planners)) {
    planners.push_back(make_planner(text));
  }
  JobOptions options = o.job;
  std::vector<std::string> methods = split_specs(o.methods);
  if (methods.empty()) methods = {"dense", "dense-bf16", options.sparsifier};
  const std::vector<std::int64_t> workers = parse_workers(o.workers);
  options.workers = workers.front();
  std::vector<Json> rows;
  for (const std::string& method : methods) {
    Job job = method_job(options, method);
    for (const std::int64_t p : workers) {
      job.ranks = static_cast<double>(p);
      for (const auto& planner : planners) {
        show_progress(fmt::format("{} workers, {}", p, planner->name()));
        const Plan plan = planner->make(job);
        check_turns(plan);
        Json row = {{"method", method}, {"workers", p}};
        row.update(summary_of(plan, simulate(plan, job)));
        rows.push_back(std::move(row));
      }
    }
  }
  show_progress("");
  return rows;
}

std::string plot_of(const std::vector<Json>& rows, const std::string& title) {
  std::vector<Panel> panels;
  for (const Json& row : rows) {
    const std::string method = row["method"];
    if (panels.empty() || panels.back().title != method) {
      panels.push_back({method, {}});
    }
    std::vector<Curve>& curves = panels.back().curves;
    const std::string planner = row["planner"];
    auto curve =
        std::find_if(curves.begin(), curves.end(),
                     [&](const Curve& c) { return c.name == planner; });
    if (curve == curves.end()) {
      curves.push_back({planner, {}, {}});
      curve = curves.end() - 1;
    }
    curve->x.push_back(row["workers"].get<double>());
    curve->y.push_back(1e3 * row["iteration"].get<double>());
  }
  return draw_plot(title, panels, {.label = "workers", .log = true},
                   {.label = "iteration, ms", .log = true});
}

const Table kTable = {
    {{"method", "method", ""},
     {"workers", "workers", "{}"},
     {"planner", "planner", ""},
     {"buckets", "buckets", "{}"},
     {"iteration", "step ms", "{:.3f}", 1e3},
     {"exposed_exchange", "exchange ms", "{:.3f}", 1e3},
     {"exposed_work", "work ms", "{:.3f}", 1e3},
     {"free_compression", "free ms", "{:.3f}", 1e3},
     {"bytes", "MB", "{:.3f}", 1e-6},
     {"efficiency", "efficiency %", "{:.1f}", 100}},
    "all simulated. step ms: an iteration; exchange ms, work ms: of it, "
    "waiting for exchanges, and selecting and applying that backward does not "
    "hide; free ms: if compressing took no time; MB: received by a worker; "
    "efficiency: computing over the step"};

void run(const Options& o) {
  const std::vector<Json> rows = sweep(o);
  if (!o.plot.empty()) {
    write_text(o.plot, plot_of(rows, "simulated iteration"));
  }
  show_rows(rows, kTable, o.output);
}

}  // namespace

void add_plan_simulate(CLI::App& plan) {
  auto o = std::make_shared<Options>();
  CLI::App* simulate = plan.add_subcommand(
      "simulate",
      "The iteration by planner, method and number of workers, on paper: what "
      "of exchanges and work is not hidden, and what it would be if "
      "compressing were free");
  add_job_options(*simulate, o->job);
  add_density(*simulate, o->job);
  simulate
      ->add_option("--workers", o->workers,
                   "Numbers of workers: 2..65536 doubles, 4,6,8 are these")
      ->delimiter(',');
  simulate->add_option("--planners", o->planners,
                       "Names of `sluice list planners`, with commas");
  simulate->add_option("--methods", o->methods,
                       "Sparsifiers, dense or dense-bf16, with commas; if not "
                       "given both dense ones and --sparsifier");
  simulate->add_option("--plot", o->plot, "Write a plot, as SVG");
  add_output_options(*simulate, o->output);
  add_examples(
      *simulate,
      {"sluice plan simulate --net 50us,1Gbit --workers 2..65536 --planners "
       "auto,omgs-exact --methods dense,topk,dgc --plot workers.svg"});
  simulate->callback([o] { run(*o); });
}

}  // namespace sluice
