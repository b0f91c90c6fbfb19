#include "sluice/torch/train/profiling.h"

#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/run/live_planning.h"
#include "sluice/run/machine.h"

namespace sluice {

Profiling::Profiling(Session& session)
    : session_(session),
      times_(session.model.tensors, session.device,
             static_cast<std::size_t>(session.config.profile)) {}

void Profiling::begin_step() {
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
          "gradients of all tensors";
      return;
    }
    std::vector<std::string> sparsifiers = {"topk", "adtopk"};
    const std::string& own = session_.config.sparsifier;
    const std::string name = parse_spec(own).name;
    if (name != "none" && name != "topk" && name != "adtopk") {
      sparsifiers.push_back(own);
    }
    problem = problem_of([&] {
      Profile out = profile();
      const bool host = session_.backend->is_host();
      out.costs =
          measure_stages(session_.config, *session_.backend, session_.threads,
                         sparsifiers, std::size_t{1} << (host ? 23 : 26));
      write_text(path, to_json(out));
    });
    says = concat("what a step takes is in ", path, ": go by it with --costs ",
                  path);
  });
  agree(session_.comm, "profile", session_.progress.done, problem);
  return says;
}

}  // namespace sluice
