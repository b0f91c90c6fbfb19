#include "sluice/run/planning.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "sluice/collective/sparse_allreduce.h"
#include "sluice/comm/emulated/emulated.h"
#include "sluice/core/ensure.h"
#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/plan/auto_planner.h"
#include "sluice/plan/planner.h"
#include "sluice/plan/simulate.h"

namespace sluice {
namespace {

bool is_file(const std::string& plan) { return plan.ends_with(".json"); }

// The tensors of a profile must be those of the model: times of others say
// nothing.
void check_costs(const TrainConfig& c, const Profile& profile,
                 const PlannedTensors& model) {
  const auto& theirs = profile.tensors;
  const std::size_t count = model.tensors.size();
  ensure(theirs.size() == count, "[train] the costs '", c.costs,
         "' must be of this model, which has ", count, " tensors, but have ",
         theirs.size(), "; --profile 20 measures them");
  for (std::size_t i = 0; i < count; ++i) {
    const TensorInfo& ours = model.tensors[i];
    const std::size_t elements = shape3(ours.dims).size();
    ensure(theirs[i].name == ours.name && theirs[i].elements == elements,
           "[train] the costs '", c.costs,
           "' must be of this model, whose tensor ", i, " is '", ours.name,
           "' with ", elements, " elements, but have '", theirs[i].name,
           "' with ", theirs[i].elements, "; --profile 20 measures them");
  }
}

// Sizes without times, for planners that go by no costs.
Profile sizes_of(const PlannedTensors& model) {
  Profile out;
  for (const TensorInfo& t : model.tensors) {
    TensorProfile tensor;
    tensor.name = t.name;
    tensor.elements = shape3(t.dims).size();
    tensor.shape = t.dims;
    out.tensors.push_back(std::move(tensor));
  }
  return out;
}

Decisions read_decisions(const TrainConfig& c, const PlannedTensors& model) {
  const std::string problem = why_no_file(c.plan);
  ensure(problem.empty(), "[train] the plan '", c.plan,
         "' must be readable: ", problem);
  return decisions_from_json(read_text_file("train", c.plan), model.names);
}

// How many buckets travel in which way, in the order of their first ones.
std::string describe_ways(const Plan& plan) {
  std::vector<std::pair<std::string, std::size_t>> ways;
  for (const BucketPlan& b : plan.buckets) {
    const std::string way =
        concat(b.dense() ? "" : b.sparsifier + " ", "by ", b.collective);
    const auto at =
        std::ranges::find(ways, way, &decltype(ways)::value_type::first);
    if (at == ways.end()) {
      ways.emplace_back(way, 1);
    } else {
      ++at->second;
    }
  }
  std::string text;
  for (const auto& [way, count] : ways) {
    text += text.empty() ? concat(count, count == 1 ? " bucket " : " buckets ")
                         : concat(", ", count, " ");
    text += way;
  }
  return text;
}

Decisions only(Plan plan) { return {{0, {}, {}, std::move(plan)}}; }

}  // namespace

// Between 4 processes on 2 cores of an EPYC `sluice probe` found 3 to 37 us and
// 7 to 17 Gbit/s (2026-11-16); between hosts a slow network is expected.
std::string nominal_network(bool inside_machine) {
  return inside_machine ? "20us,10Gbit" : "50us,1Gbit";
}

bool knows_network(const TrainConfig& config) {
  return config.network != "nominal" && config.network != "measured";
}

PlanSite plan_site(const TrainConfig& config, const Communicator& comm,
                   const Backend& backend, std::size_t machines,
                   std::size_t threads) {
  const std::string nominal =
      !config.net.empty() ? config.net
                          : nominal_network(comm.local_size() == comm.size());
  const Link numbers =
      parse_link(knows_network(config) ? config.network : nominal);
  PlanSite out{comm.size(), {}, false, backend.is_host() ? "cpu" : "cuda"};
  out.network.between = {numbers.alpha, numbers.beta};
  if (numbers.per_machine > 1) {
    out.network.inside = {numbers.inside_alpha, numbers.inside_beta};
    out.network.per_machine = static_cast<double>(numbers.per_machine);
  } else if (config.net.empty() && machines > 1) {
    const Link inside = parse_link(nominal_network(true));
    out.network.inside = {inside.alpha, inside.beta};
    out.network.per_machine =
        static_cast<double>(comm.size()) / static_cast<double>(machines);
  }
  const bool seen = threads * comm.local_size() <
                    std::max(1U, std::thread::hardware_concurrency());
  out.spare_cores =
      config.spare_cores == "auto" ? seen : config.spare_cores == "yes";
  return out;
}

bool plans_live(const TrainConfig& config) {
  return !is_file(config.plan) && config.costs.empty() &&
         make_planner(config.plan)->needs_costs();
}

Decisions first_decisions(const TrainConfig& config,
                          const PlannedTensors& model, const PlanSite& site,
                          std::string& forecast) {
  if (config.costs.empty()) {
    if (is_file(config.plan)) return read_decisions(config, model);
    const std::string first =
        plans_live(config) ? first_plan(config) : config.plan;
    const Job job = job_of(config, model, site, sizes_of(model));
    return only(make_planner(first)->make(job));
  }
  const Profile profile = read_profile(config.costs);
  check_costs(config, profile, model);
  const Job job = job_of(config, model, site, profile);
  Decisions out = is_file(config.plan)
                      ? read_decisions(config, model)
                      : only(make_planner(config.plan)->make(job));
  const Plan& plan = out[0].plan;
  forecast = concat("plan ", plan.name, ": ", describe_forecast(plan, job));
  return out;
}

Job job_of(const TrainConfig& c, const PlannedTensors& model,
           const PlanSite& site, const Profile& profile) {
  Job job;
  job.profile = profile;
  job.network = site.network;
  job.ranks = static_cast<double>(site.ranks);
  job.collectives = collective_costs();
  job.device = site.device;
  job.streams.select_beside = site.spare_cores || job.device == "cuda";
  job.streams.one_core = !site.spare_cores;
  job.sparse.sparsifier = c.sparsifier;
  job.sparse.feedback = c.feedback;
  job.sparse.collective = c.collective;
  job.sparse.values = c.values;
  job.dense_collective = job.all_dense() && c.collective.starts_with("dense")
                             ? c.collective
                             : c.dense_collective;
  for (const Treatment& t : model.treatments) job.dense.push_back(t.dense);
  job.density = c.density;
  return job;
}

double share_sent_whole(const Plan& plan, const PlannedTensors& model) {
  const auto selected = [&](std::size_t tensor) {
    return !model.treatments[tensor].dense;
  };
  double all = 0;
  for (std::size_t t = 0; t < model.tensors.size(); ++t) {
    const double size =
        static_cast<double>(shape3(model.tensors[t].dims).size());
    if (selected(t)) all += size;
  }
  double whole = 0;
  for (const BucketPlan& b : plan.buckets) {
    if (!b.dense()) continue;
    for (const std::size_t t : b.tensors) {
      const auto& dims = model.tensors[t].dims;
      const std::size_t rows =
          std::max<std::size_t>(1, dims.empty() ? 1 : dims[0]);
      const std::size_t part = b.piece.end(rows) - b.piece.begin(rows);
      if (selected(t))
        whole += static_cast<double>(part * (shape3(dims).size() / rows));
    }
  }
  return all > 0 ? whole / all : 0;
}

std::string describe_forecast(const Plan& plan, const Job& job) {
  const Simulation expected = simulate(plan, job);
  const auto ms = [](double seconds) {
    return static_cast<double>(std::llround(1e5 * seconds)) / 100;
  };
  const bool all_dense = std::ranges::all_of(plan.buckets, &BucketPlan::dense);
  return concat(describe_ways(plan), "; a step of ", ms(expected.iteration),
                " ms expected, ",
                ms(expected.exposed_exchange + expected.exposed_work),
                " of them waiting",
                all_dense && !job.all_dense()
                    ? concat(plan.name == AutoPlanner::kName
                                 ? "; compressing would not pay here, so that "
                                 : "; ",
                             "everything is sent")
                    : "");
}

}  // namespace sluice
