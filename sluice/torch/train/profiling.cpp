#include "sluice/torch/train/profiling.h"

#include "sluice/backend/clock.h"
#include "sluice/core/error.h"
#include "sluice/run/atomic_file.h"
#include "sluice/run/machine.h"
#include "sluice/sync/stage_costs.h"

namespace sluice {

Profiling::Profiling(Session& session)
    : session_(session),
      times_(session.model.parameters, session.device,
             static_cast<std::size_t>(session.config.profile)) {}

void Profiling::begin_step() {
  if (!active() || !session_.is_first()) return;
  if (times_.begin()) {
    session_.adapter->watch([this](std::size_t i) { times_.ready(i); });
  } else {
    session_.adapter->watch({});
  }
}

Profile Profiling::profile() const {
  const TrainConfig& config = session_.config;
  const torch::Device& device = session_.device;
  Profile out = times_.profile();
  out.model = config.model;
  out.machine = device.is_cpu() ? concat(processor_name(), ", ",
                                         session_.threads, " threads")
                                : cuda_name(device.index());
  out.date = today();
  CostQuery query;
  query.density = config.density;
  query.sparsifiers = {"topk", "adtopk"};
  const std::string name =
      config.sparsifier.substr(0, config.sparsifier.find(':'));
  if (name != "none" && name != "topk" && name != "adtopk") {
    query.sparsifiers.push_back(config.sparsifier);
  }
  const bool host = session_.backend->is_host();
  query.device = host ? "cpu" : "cuda";
  query.largest = std::size_t{1} << (host ? 23 : 26);
  const auto clock =
      host ? make_cpu_clock(session_.threads) : make_cuda_clock();
  out.costs = measure_costs(*session_.backend, *clock, query);
  return out;
}

std::string Profiling::finish() {
  if (!active()) return {};
  const std::string path = session_.config.out + "/profile.json";
  std::string says;
  std::string problem;
  session_.at_files(path, [&] {
    if (!session_.is_first()) return;
    if (!times_.complete()) {
      says =
          "there is no profile.json: it takes eight steps or more, each with "
          "gradients of all tensors, and no --clip-local";
      return;
    }
    problem = problem_of([&] { write_text(path, to_json(profile())); });
    says = concat("what a step takes is in ", path, ": go by it with --costs ",
                  path);
  });
  agree(session_.comm, "profile", session_.progress.done, problem);
  return says;
}

}  // namespace sluice
