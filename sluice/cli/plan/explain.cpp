#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/plan/job_options.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/table.h"
#include "sluice/plan/ways.h"
#include "sluice/run/timeline.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  JobOptions job;
  std::string plan;
  std::string trace;
  bool json = false;
};

bool must_be_dense(const Job& job, const BucketPlan& bucket) {
  return std::any_of(bucket.tensors.begin(), bucket.tensors.end(),
                     [&](std::size_t t) { return job.must_be_dense(t); });
}

// What the iteration would be if one bucket travelled in another way.
// Leaves the plan as it is.
Json alternatives(const Job& job, Plan& plan, std::size_t bucket) {
  BucketPlan& b = plan.buckets[bucket];
  // In any form of value: who explains chooses nothing.
  std::vector<BucketPlan> ways;
  for (const CostRow& row : job.collectives) {
    if (row.dense) ways.push_back(dense_bucket(job, row.name));
  }
  if (!must_be_dense(job, b)) {
    for (const BucketPlan& way : sparse_ways(job)) {
      ways.push_back(way);
      ways.push_back(way);
      ways.back().device = "cpu";
      if (!job.offloads(ways.back()) || !Way::priced(job, ways.back())) {
        ways.pop_back();
      }
    }
  }
  const std::string own = describe_way(b, job.density);
  Json rows = Json::array();
  for (BucketPlan& way : ways) {
    way.tensors = b.tensors;
    way.piece = b.piece;
    if (!way.dense()) way.turns = b.turns;
    const std::string name = describe_way(way, job.density);
    if (name == own) continue;
    std::swap(b, way);
    rows.push_back(
        {{"way", name}, {"iteration", iteration_seconds(plan, job)}});
    std::swap(b, way);
  }
  return rows;
}

Json row_of(const Job& job, Plan& plan, const Simulation& s, std::size_t i,
            const std::string& label) {
  const BucketTimes& times = s.timeline.buckets[i];
  Json row = {{"bucket", i},
              {"tensors", label},
              {"elements", bucket_elements(job.profile, plan.buckets[i])},
              {"way", describe_way(plan.buckets[i], job.density)},
              {"select", s.costs[i].select},
              {"exchange", s.costs[i].exchange},
              {"apply", s.costs[i].apply},
              {"bytes", s.costs[i].bytes},
              {"ready", times.ready},
              {"sent_from", times.exchange.begin},
              {"applied", times.apply.end},
              {"instead", nullptr},
              {"change", nullptr}};
  row["alternatives"] = alternatives(job, plan, i);
  for (const Json& other : row["alternatives"]) {
    const double change = other["iteration"].get<double>() - s.iteration;
    if (!row["change"].is_null() && change >= row["change"]) continue;
    row["instead"] = other["way"];
    row["change"] = change;
  }
  return row;
}

const Table kTable = {
    {{"bucket", "bucket", "{}"},
     {"tensors", "tensors", ""},
     {"elements", "elements", "{}"},
     {"way", "travels as", ""},
     {"select", "select ms", "{:.3f}", 1e3},
     {"exchange", "exchange ms", "{:.3f}", 1e3},
     {"apply", "apply ms", "{:.3f}", 1e3},
     {"ready", "ready at", "{:.2f}", 1e3},
     {"sent_from", "sent from", "{:.2f}", 1e3},
     {"applied", "applied at", "{:.2f}", 1e3},
     {"instead", "next best", ""},
     {"change", "step +ms", "{:.3f}", 1e3}},
    "all simulated. ready at, sent from, applied at: ms after forward began; "
    "next best: the best other way for this bucket alone, and what the step "
    "would then take more"};

void run(const Options& o) {
  const Job job = make_job(o.job);
  Plan plan = read_plan(o.plan, job.profile.names());
  plan.hierarchical |= job.hierarchical;
  const Simulation s = simulate(plan, job);
  const std::vector<std::string> labels =
      bucket_labels(plan, job.profile.names());
  std::vector<Json> rows;
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    // Every bucket takes a simulated step for each way that it could travel.
    if (i % 100 == 0) {
      show_progress(fmt::format("bucket {} of {}", i, plan.buckets.size()));
    }
    rows.push_back(row_of(job, plan, s, i, labels[i]));
  }
  show_progress("");
  if (!o.trace.empty()) {
    write_timeline(spans_of(s, job.profile.forward), labels, o.trace);
  }
  if (o.json) {
    Json all = summary_of(plan, s);
    all["rows"] = rows;
    fmt::print("{}\n", all.dump(2));
    return;
  }
  fmt::print("{}", describe(job, plan, s));
  show_rows(rows, kTable);
}

}  // namespace

void add_plan_explain(CLI::App& plan) {
  auto o = std::make_shared<Options>();
  CLI::App* explain = plan.add_subcommand(
      "explain",
      "What a plan's buckets take, when they travel, and what the iteration "
      "would be if one of them travelled otherwise");
  explain->add_option("plan", o->plan, "A plan.json")->required();
  add_job_options(*explain, o->job);
  add_density(*explain, o->job);
  add_workers(*explain, o->job);
  explain->add_option("--trace", o->trace,
                      "Write the simulated step as a timeline for Perfetto");
  explain->add_flag("--json", o->json, "Print JSON, with every alternative");
  add_examples(*explain,
               {"sluice plan explain plan.json --profile profile.json --net "
                "50us,1Gbit --workers 16"});
  explain->callback([o] { run(*o); });
}

}  // namespace sluice
