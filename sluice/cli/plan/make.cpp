#include <fmt/format.h>

#include <memory>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/plan/job_options.h"
#include "sluice/cli/shared/help.h"
#include "sluice/core/atomic_file.h"
#include "sluice/plan/planner.h"

namespace sluice {
namespace {

struct Options {
  JobOptions job;
  std::string planner = "auto";
  std::string out = "plan.json";
  bool json = false;
};

void run(const Options& o) {
  const auto planner = make_planner(o.planner);
  const Job job = make_job(o.job);
  const Stopwatch watch;
  const Plan plan = planner->make(job);
  const double seconds = watch.seconds();
  check_turns(plan);
  const Simulation s = simulate(plan, job);
  write_text(o.out, to_json(plan, job.profile.names()));
  if (o.json) {
    auto summary = summary_of(plan, s);
    summary["planning_seconds"] = seconds;
    summary["out"] = o.out;
    fmt::print("{}\n", summary.dump(2));
    return;
  }
  fmt::print("{}planned {} tensors in {:.1f} ms; wrote {}\n",
             describe(job, plan, s), job.profile.tensors.size(), 1e3 * seconds,
             o.out);
}

}  // namespace

void add_plan_make(CLI::App& plan) {
  auto o = std::make_shared<Options>();
  CLI::App* make = plan.add_subcommand(
      "make", "Make a plan from what a model and a network take");
  add_job_options(*make, o->job);
  add_density(*make, o->job);
  add_workers(*make, o->job);
  make->add_option("--planner", o->planner,
                   "One of `sluice list planners`, or size=BYTES");
  make->add_option("--out", o->out, "The file to write");
  make->add_flag("--json", o->json, "Print what it would take as JSON");
  add_examples(
      *make,
      {"sluice plan make --profile profile.json --net network.json --workers "
       "16",
       "sluice plan make --net 50us,1Gbit --workers 64 --planner omgs-exact "
       "--collective allgather --out omgs.json"});
  make->callback([o] { run(*o); });
}

}  // namespace sluice
