#include "sluice/torch/train/planned_model.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "sluice/collective/sparse_allreduce.h"
#include "sluice/core/ensure.h"
#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/feedback/feedback.h"
#include "sluice/plan/planner.h"
#include "sluice/plan/simulate.h"
#include "sluice/torch/train/adapter.h"

namespace sluice {
namespace {

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream in(text);
  for (std::string name; std::getline(in, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

PlanInput plan_input(const TrainConfig& c, const PlannedModel& planned) {
  PlanInput input;
  for (std::size_t i = 0; i < planned.tensors.size(); ++i) {
    input.sizes.push_back(shape3(planned.tensors[i].dims).size());
    input.dense.push_back(planned.treatments[i].dense);
  }
  input.sparse.sparsifier = c.sparsifier;
  input.sparse.feedback = c.feedback;
  input.sparse.collective = c.collective;
  input.sparse.values = c.values;
  const bool all_dense = c.sparsifier == "none";
  input.dense_collective = all_dense && c.collective.starts_with("dense")
                               ? c.collective
                               : c.dense_collective;
  return input;
}

// The tensors of a profile must be those of the model: times of others say
// nothing.
void check_costs(const TrainConfig& c, const Profile& profile,
                 const PlannedModel& planned) {
  const auto& theirs = profile.tensors;
  const std::size_t count = planned.tensors.size();
  ensure(theirs.size() == count, "[train] the costs '", c.costs,
         "' must be of this model, which has ", count, " tensors, but have ",
         theirs.size(), "; --profile 20 measures them");
  for (std::size_t i = 0; i < count; ++i) {
    const TensorInfo& ours = planned.tensors[i];
    const std::size_t elements = shape3(ours.dims).size();
    ensure(theirs[i].name == ours.name && theirs[i].elements == elements,
           "[train] the costs '", c.costs,
           "' must be of this model, whose tensor ", i, " is '", ours.name,
           "' with ", elements, " elements, but have '", theirs[i].name,
           "' with ", theirs[i].elements, "; --profile 20 measures them");
  }
}

Job job_of(const TrainConfig& c, const PlannedModel& planned,
           const PlanSite& site) {
  Job job;
  job.profile = read_profile(c.costs);
  check_costs(c, job.profile, planned);
  job.network.between = site.network;
  job.ranks = static_cast<double>(site.ranks);
  job.collectives = collective_costs();
  job.device = parse_device(c.device).is_cpu ? "cpu" : "cuda";
  job.streams.select_beside = site.spare_cores || job.device == "cuda";
  const PlanInput input = plan_input(c, planned);
  job.sparse = input.sparse;
  job.dense_collective = input.dense_collective;
  job.dense = input.dense;
  job.density = c.density;
  return job;
}

std::string forecast_of(const Plan& plan, const Job& job) {
  const Simulation expected = simulate(plan, job);
  const auto ms = [](double seconds) {
    return static_cast<double>(std::llround(1e5 * seconds)) / 100;
  };
  const bool dense = std::ranges::all_of(
      plan.buckets, [](const BucketPlan& b) { return b.sparsifier == "none"; });
  return concat(
      "plan ", plan.name, ": ", plan.buckets.size(), " buckets, a step of ",
      ms(expected.iteration), " ms expected, ",
      ms(expected.exposed_exchange + expected.exposed_work), " of them waiting",
      dense && !job.all_dense()
          ? "; compressing would not pay here, so that everything is sent: "
            "--sparsifier none has the recipe for that"
          : "");
}

// What planners make without costs.
Plan simple_plan(const TrainConfig& c, const PlannedModel& planned) {
  const bool goes_by_costs =
      c.plan != "layerwise" && c.plan != "single" &&
      std::ranges::any_of(planners(), [&](const PlannerEntry& entry) {
        return c.plan.substr(0, c.plan.find(':')) == entry.name;
      });
  ensure(!goes_by_costs, "[train] --plan ", c.plan,
         " goes by what a step takes: --costs RUN/profile.json, which a run "
         "with --profile 20 writes");
  return make_plan(c.plan, plan_input(c, planned));
}

Plan read_plan(const TrainConfig& c, const PlannedModel& planned) {
  const std::string problem = why_no_file(c.plan);
  ensure(problem.empty(), "[train] the plan '", c.plan,
         "' must be readable: ", problem);
  return plan_from_json(read_text_file("train", c.plan), planned.names);
}

// Sets the plan, and with costs what is expected of it.
void set_plan(const TrainConfig& c, const PlanSite& site,
              PlannedModel& planned) {
  const bool read = c.plan.ends_with(".json");
  if (read) planned.plan = read_plan(c, planned);
  if (c.costs.empty()) {
    if (!read) planned.plan = simple_plan(c, planned);
    return;
  }
  const Job job = job_of(c, planned, site);
  if (!read) planned.plan = make_planner(c.plan)->make(job);
  planned.forecast = forecast_of(planned.plan, job);
}

void use_channels_last(const NamedTensors& parameters) {
  for (const NamedTensor& p : parameters) {
    if (p.tensor.dim() != 4) continue;
    torch::Tensor tensor = p.tensor;
    tensor.set_data(tensor.detach().contiguous(at::MemoryFormat::ChannelsLast));
  }
}

}  // namespace

PlannedModel make_planned_model(const TrainConfig& asked, const Input& input,
                                const torch::Device& device,
                                const PlanSite& site) {
  TrainConfig config = asked;
  choose_device(config);
  PlannedModel planned;
  planned.module =
      make_model(config.model, input, static_cast<std::uint64_t>(config.seed));
  planned.module->to(device);
  planned.parameters = parameters_of(*planned.module);
  const auto is_image = [](const NamedTensor& p) {
    return p.tensor.dim() == 4;
  };
  if (config.channels_last == "on" &&
      std::any_of(planned.parameters.begin(), planned.parameters.end(),
                  is_image)) {
    planned.format = at::MemoryFormat::ChannelsLast;
    use_channels_last(planned.parameters);
  }
  planned.buffers = buffers_of(*planned.module);
  planned.tensors = describe_tensors(planned.parameters);
  for (const TensorInfo& t : planned.tensors) planned.names.push_back(t.name);
  Exceptions exceptions;
  exceptions.dense = split_names(config.dense);
  exceptions.no_feedback = split_names(config.no_feedback);
  exceptions.dense_below = static_cast<std::size_t>(config.dense_below);
  exceptions.dense_rank = static_cast<std::size_t>(config.dense_rank);
  planned.treatments = exceptions.resolve(planned.tensors);
  set_plan(config, site, planned);
  return planned;
}

}  // namespace sluice
