#include "sluice/torch/train/session.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "sluice/comm/nccl/nccl.h"
#include "sluice/core/error.h"
#include "sluice/core/hash.h"
#include "sluice/core/input_file.h"
#include "sluice/run/run_folder.h"
#include "sluice/torch/train/device.h"

namespace sluice {

Session::Session(const TrainConfig& how, Communicator& ranks,
                 const ModelFile* saved, bool as_device)
    : config(how),
      comm(ranks),
      density_schedule(how.density_schedule, how.density) {
  if (saved != nullptr) progress = saved->progress;
  const auto on_all = [&](auto&& part) {
    agree(comm, "start", progress.done, problem_of(part));
  };
  // A run goes on under its number.
  run = saved != nullptr && !saved->run.empty() ? saved->run : new_run_id();
  run = broadcast_first(comm, "start", progress.done, run);
  machine_of = config.machine_ranks > 0
                   ? machines_of(comm.size(),
                                 static_cast<std::size_t>(config.machine_ranks))
                   : gather_machines(comm);
  set_threads(saved);
  on_all([&] { at_files(config.data_dir, [&] { load_data(); }); });
  compare_data();
  const std::string recorded = recorded_decisions(saved);
  on_all([&] { make_model(as_device, recorded); });
  compare_plans();
  connect();
  on_all([&] { make_parts(); });
}

void Session::at_files(const std::string& path,
                       const std::function<void()>& work) {
  comm.work_alone(concat("reading or writing '", path, "' (--write-timeout)"),
                  std::chrono::duration<double>(config.write_timeout), work);
}

void Session::set_threads(const ModelFile* saved) {
  const std::size_t cores =
      std::max<std::size_t>(1, std::thread::hardware_concurrency());
  threads = static_cast<std::uint64_t>(config.threads);
  if (threads == 0) {
    threads = std::max<std::size_t>(1, cores / comm.local_size());
    // Sums over other numbers of threads have other bits.
    if (saved != nullptr && saved->ranks == comm.size()) {
      threads = saved->threads;
    }
  }
  at::set_num_threads(static_cast<int>(threads));
}

void Session::load_data() {
  task = make_task(config);
  loading.threads = data_threads(task->is_slow(),
                                 static_cast<std::size_t>(config.data_threads),
                                 comm.local_size(), config.device != "cpu");
  loading.pinned = config.device != "cpu";
  loading.prefetch = static_cast<std::size_t>(config.prefetch);
}

void Session::make_batches() {
  SamplerOptions how;
  how.batch = static_cast<std::uint64_t>(config.batch_size);
  how.rank = comm.rank();
  how.ranks = comm.size();
  how.seed = static_cast<std::uint64_t>(config.seed);
  batches = task->training(*model.module, how, loading);
  const auto passes = static_cast<std::uint64_t>(config.accumulate);
  require(batches->steps_per_epoch() >= passes, "[train] --accumulate must be ",
          "at most the ", batches->steps_per_epoch(),
          " batches of an epoch, got ", passes);
  progress = progress.in(batches->steps_per_epoch() / passes);
  const std::uint64_t end =
      static_cast<std::uint64_t>(config.epochs) * progress.steps_per_epoch;
  total = config.max_steps > 0
              ? static_cast<std::uint64_t>(config.max_steps)
              : progress.done + (end - std::min(end, progress.place));
}

// Files on disks of their own may differ, and then some samples would be taken
// twice and others never.
void Session::compare_data() {
  data = task->fingerprint();
  const auto all = gather_at_first(comm, "comparison of data", progress.done,
                                   std::as_bytes(std::span(&data, 1)));
  std::string problem;
  for (std::size_t r = 0; r < all.size() && problem.empty(); ++r) {
    std::uint64_t theirs = 0;
    std::memcpy(&theirs, all[r].data(), sizeof(theirs));
    if (theirs == data) continue;
    problem = concat("[train] all ranks must see the same data, but rank ", r,
                     " has other files or labels than rank 0 under '",
                     config.data_dir, "'; copy them again, or share a folder");
  }
  agree(comm, "comparison of data", progress.done, problem);
}

// What the run has decided before, as JSON, on all ranks; nothing if it starts
// anew, or its ranks or its plan are others now. The folder may know of more
// than the checkpoint: a run repeats what it did before it was stopped.
std::string Session::recorded_decisions(const ModelFile* saved) {
  std::string text;
  if (saved != nullptr && saved->ranks == comm.size() &&
      saved->config.plan == config.plan &&
      saved->config.costs == config.costs) {
    text = saved->plan;
    const std::string path = config.out + "/plan.json";
    if (is_first() && why_no_file(path).empty()) {
      at_files(path, [&] {
        text = longer_record(text, read_text_file("resume", path));
      });
    }
  }
  return broadcast_first(comm, "start", progress.done, text);
}

void Session::make_model(bool as_device, const std::string& recorded) {
  device = device_of(config, comm.local_rank());
  set_up_device(config, device, task->shapes_vary());
  const bool on_gpu = !device.is_cpu() &&
                      (has_gpu_alone() || config.gpu_link == "nccl") &&
                      cuda_problem(device.index()).empty();
  backend = on_gpu ? make_cuda_backend({device.index()})
                   : make_cpu_backend({threads, ""});
  if (on_gpu) host = make_cpu_backend({threads, ""});
  with_memory(device, [&] {
    model = make_planned_model(config, task->input(), device, site());
  });
  if (!recorded.empty()) {
    model.decisions = decisions_from_json(recorded, model.names);
    model.plan = decision_at(model.decisions, progress.done).plan;
  }
  beside = as_device || !device.is_cpu();
  alone = beside && comm.size() == 1 && config.study.empty() &&
          std::ranges::all_of(model.decisions, [](const Decision& d) {
            return std::ranges::all_of(d.plan.buckets, &BucketPlan::dense);
          });
  task->check(*model.module);
  make_batches();
  feed = std::make_unique<BatchFeed>(*batches, device, model.format);
}

// Files of one name may differ from host to host.
void Session::compare_plans() {
  const std::string text = to_json(model.decisions, model.names);
  const std::size_t other =
      rank_that_differs(comm, "comparison of plans", progress.done,
                        std::as_bytes(std::span(text)));
  agree(comm, "comparison of plans", progress.done,
        other == comm.rank()
            ? ""
            : concat("[train] all ranks must begin with the same plan, but "
                     "rank ",
                     other, " has another than rank ", comm.rank(), "; copy '",
                     config.plan, "' (and --costs) to all hosts"));
}

PlanSite Session::site() const {
  return plan_site(config, comm, *backend, machines().leaders().size(),
                   threads);
}

double Session::share_sent_whole() const {
  if (config.sparsifier == "none") return 0;
  return sluice::share_sent_whole(model.plan, model.as_planned());
}

std::string_view Session::gpu_link() const {
  if (device.is_cpu() || comm.size() == 1) return "";
  return link != nullptr ? "nccl" : "mpi";
}

void Session::take_plan(const Decision& decision) {
  sync->replan(decision.plan, decision.network);
  model.plan = decision.plan;
}

// A call of all ranks.
void Session::connect() {
  if (gpu_link().empty() || config.gpu_link == "mpi") return;
  std::string problem;
  if (!config.net.empty()) {
    problem = "[train] an emulated network (--net) is one of the host's";
  } else if (config.engine != "mpi") {
    problem = concat("[train] workers that are threads (--engine ",
                     config.engine, ") exchange through the host");
  } else if (backend->is_host()) {
    problem = cuda_problem(device.index());
    if (problem.empty()) {
      problem = "[train] workers share a GPU, and select on the host";
    }
  }
  auto made = make_nccl_link(comm, device.index(), problem);
  link = std::move(made.link);
  link_problem = made.problem;
  const bool must = config.gpu_link == "nccl" && link == nullptr;
  agree(
      comm, "start", progress.done,
      must ? concat(link_problem, "; --gpu-link mpi works without NCCL") : "");
}

// Processes that share a GPU take turns on it, and are done sooner when they
// select on the host's cores (docs/benchmarks.md).
bool Session::has_gpu_alone() const {
  const std::size_t gpus =
      parse_device(config.device).number ? 1 : torch::cuda::device_count();
  return comm.local_size() <= gpus;
}

void Session::make_study_of_run() {
  if (config.study.empty()) return;
  require(!model.plan.hierarchical,
          "[study] workers must select for themselves, but the plan '",
          config.plan, "' selects for whole machines; use --plan single");
  study = make_study(config.study, {model.tensors, comm.rank(), total,
                                    static_cast<std::uint64_t>(config.seed)});
}

void Session::make_parts() {
  make_study_of_run();
  SyncOptions how;
  how.observer = study.get();
  how.link = link.get();
  how.plan = model.plan;
  how.machine_of = machine_of;
  how.host = host.get();
  how.seed = static_cast<std::uint64_t>(config.seed);
  how.total_steps = total;
  how.first_step = 1;
  how.nonfinite =
      config.nonfinite == "stop" ? NonFinite::kStop : NonFinite::kSkip;
  how.treatments = model.treatments;
  how.trace = &trace;
  const auto& network = decision_at(model.decisions, progress.done).network;
  if (network) {
    how.network = network;
  } else if (config.network != "measured") {
    how.network = site().network.between;
  }
  sync = std::make_unique<GradientSync>(comm, *backend, model.tensors, how);
  adapter =
      alone ? std::make_unique<AutogradAdapter>(model.parameters)
            : std::make_unique<AutogradAdapter>(
                  *sync, model.parameters, goes_through_host(), comm.timeout());
  optimizer = make_optimizer(config.optimizer, model.parameters);
  LrContext context;
  context.base = config.lr;
  context.workers = static_cast<double>(comm.size());
  context.steps_per_epoch = static_cast<double>(progress.steps_per_epoch);
  context.epochs = static_cast<double>(config.epochs);
  if (config.max_steps > 0) {
    // Steps of other numbers of workers count as so many of these.
    const auto left =
        static_cast<double>(total) - static_cast<double>(progress.done);
    context.epochs =
        progress.epochs() + std::max(0.0, left) / context.steps_per_epoch;
  }
  schedule = make_lr_schedule(config.lr_schedule, context);
}

}  // namespace sluice
