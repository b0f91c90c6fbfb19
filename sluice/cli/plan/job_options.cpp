#include "sluice/cli/plan/job_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "sluice/cli/bench/bench.h"
#include "sluice/cli/shared/help.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/comm/emulated/emulated.h"
#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/core/plain_none.h"
#include "sluice/feedback/feedback.h"
#include "sluice/plan/decisions.h"
#include "sluice/plan/network.h"
#include "sluice/sparsify/sparsifier.h"

namespace sluice {
namespace {

void check_feedback(const std::string& text) {
  const std::string name = parse_spec(text).name;
  std::vector<std::string_view> known;
  for (const auto& entry : feedbacks()) known.push_back(entry.name);
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    fail_unknown("feedback", name, known);
  }
}

}  // namespace

void add_job_options(CLI::App& command, JobOptions& o) {
  command.option_defaults()->always_capture_default();
  command.add_option("--profile", o.profile,
                     "What the model's step takes: a profile.json");
  command.add_option("--net", o.net,
                     "The network: a file of sluice probe, or ALPHA,RATE as in "
                     "50us,1Gbit");
  command.add_option("--sparsifier", o.sparsifier,
                     "What selects; none: all is dense");
  command.add_option("--feedback", o.feedback, "What is kept for later");
  command.add_option("--values", o.values, "Of what is sent: fp32, bf16, fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command.add_option("--collective", o.collective,
                     "How sparse buckets travel; auto: any with the exact sum");
  command.add_option("--dense-collective", o.dense_collective,
                     "How tensors travel that stay dense");
  command.add_option("--dense-rank", o.dense_rank,
                     "Tensors of so many dimensions at most stay dense");
  command.add_option("--dense-below", o.dense_below,
                     "Tensors of fewer elements stay dense");
  command.add_option("--device", o.device, "Whose costs of the profile count")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command
      .add_option("--select", o.select,
                  "Selection runs beside backward, or in its stream")
      ->check(CLI::IsMember({"beside", "backward"}));
  command.add_flag("--hierarchical", o.hierarchical,
                   "Ranks of a machine add their gradients first");
  group_options(
      command, "The job",
      {"--profile", "--net", "--device", "--select", "--hierarchical"});
  group_options(command, "What is sent",
                {"--sparsifier", "--feedback", "--values", "--collective",
                 "--dense-collective", "--dense-rank", "--dense-below"});
}

void add_density(CLI::App& command, JobOptions& o) {
  command.add_option("--density", o.density, "Share of entries to send");
}

void add_workers(CLI::App& command, JobOptions& o) {
  command.add_option("--workers", o.workers, "Number of workers")->required();
}

Topology parse_network(const std::string& text) {
  const bool is_text =
      text.find(',') != std::string::npos && !why_no_file(text).empty();
  if (!is_text) return read_network(text);
  const Link link = parse_link(text);
  require(link.slow_downs.empty(), "[plan] --net must be alike for all ranks, ",
          "got '", text, "'; leave the slow ranks out");
  Topology network;
  network.between = {link.alpha, link.beta};
  network.per_machine = static_cast<double>(link.per_machine);
  network.inside = {link.inside_alpha, link.inside_beta};
  return network;
}

std::string describe(const Topology& t) {
  const auto one = [](const Network& n) {
    const double gbit = n.beta > 0 ? 8e-9 / n.beta : 0;
    return fmt::format("{:.4g} us, {}", 1e6 * n.alpha,
                       n.beta > 0 ? fmt::format("{:.4g} Gbit/s", gbit)
                                  : std::string("any rate"));
  };
  if (!t.two_level()) return one(t.between);
  return fmt::format("machines of {} ({}), between them {}", t.per_machine,
                     one(t.inside), one(t.between));
}

Job make_job(const JobOptions& o) {
  check_density(o.density);
  make_sparsifier(o.sparsifier);
  make_collective(o.collective);
  make_collective(o.dense_collective);
  check_feedback(o.feedback);
  require(o.dense_rank >= 0 && o.dense_below >= 0,
          "[plan] --dense-rank and --dense-below must be 0 or more, got ",
          o.dense_rank, " and ", o.dense_below);
  Job job;
  job.profile = read_profile(o.profile);
  job.network = parse_network(o.net);
  job.ranks = static_cast<double>(o.workers);
  job.collectives = collective_costs();
  job.device = o.device;
  job.streams.select_beside = o.select == "beside";
  job.hierarchical = o.hierarchical;
  job.sparse.sparsifier = plain_none(o.sparsifier);
  job.sparse.feedback = o.feedback;
  job.sparse.values = o.values;
  job.sparse.collective = job.all_dense() ? o.dense_collective : o.collective;
  job.dense_collective = o.dense_collective;
  job.density = o.density;
  job.dense = dense_tensors(job.profile, static_cast<std::size_t>(o.dense_rank),
                            static_cast<std::size_t>(o.dense_below));
  check_job(job);
  return job;
}

Job dense_job(const Job& job, std::string_view collective) {
  Job dense = job;
  dense.sparse = dense_bucket(job, collective);
  dense.dense_collective = collective;
  dense.collectives = {&find_cost(job.collectives, collective), 1};
  return dense;
}

void check_turns(const Plan& plan) {
  for (const BucketPlan& b : plan.buckets) {
    for (const std::string& rule : b.turns) make_sparsifier(rule);
  }
}

std::string describe_rules(const BucketPlan& b) {
  std::string rules = b.sparsifier;
  for (const std::string& rule : b.turns) rules += "/" + rule;
  return rules;
}

std::string describe_way(const BucketPlan& b, double density) {
  if (b.sparsifier == "none") return b.collective;
  return fmt::format("{} {:.4g} % by {}{}{}", describe_rules(b),
                     100 * b.density.value_or(density), b.collective,
                     b.device.empty() ? "" : " on ", b.device);
}

nlohmann::ordered_json summary_of(const Plan& plan, const Simulation& s) {
  const auto sparse =
      std::count_if(plan.buckets.begin(), plan.buckets.end(),
                    [](const BucketPlan& b) { return b.sparsifier != "none"; });
  return {{"planner", plan.name},
          {"buckets", plan.buckets.size()},
          {"sparse_buckets", sparse},
          {"iteration", s.iteration},
          {"compute", s.compute},
          {"exposed_exchange", s.exposed_exchange},
          {"exposed_work", s.exposed_work},
          {"free_compression", s.free_compression},
          {"efficiency", s.efficiency()},
          {"bytes", s.bytes}};
}

std::string describe(const Job& job, const Plan& plan, const Simulation& s) {
  return fmt::format(
      "{} on {} workers, {}\n"
      "plan {}: {} buckets\n"
      "iteration {:.3f} ms: compute {:.3f}, exchange not hidden {:.3f}, "
      "selecting and applying not hidden {:.3f}\n"
      "if compressing were free {:.3f} ms; {:.3f} MB received; efficiency "
      "{:.1f} %\n",
      job.profile.model, job.ranks, describe(job.network), plan.name,
      plan.buckets.size(), 1e3 * s.iteration, 1e3 * s.compute,
      1e3 * s.exposed_exchange, 1e3 * s.exposed_work, 1e3 * s.free_compression,
      1e-6 * s.bytes, 100 * s.efficiency());
}

Plan read_plan(const std::string& path, std::span<const std::string> names) {
  return decisions_from_json(read_text_file("plan", path), names).back().plan;
}

}  // namespace sluice
