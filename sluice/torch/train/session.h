#pragma once

#include <functional>

#include "sluice/comm/machines.h"
#include "sluice/config/lr_schedule.h"
#include "sluice/run/ranks.h"
#include "sluice/sparsify/schedule.h"
#include "sluice/study/study.h"
#include "sluice/torch/data/batch_feed.h"
#include "sluice/torch/optim/optimizer.h"
#include "sluice/torch/task/task.h"
#include "sluice/torch/train/adapter.h"
#include "sluice/torch/train/model_file.h"
#include "sluice/torch/train/planned_model.h"

namespace sluice {

// What a run works with on one rank, and where it is.
class Session {
 public:
  // With fresh weights, at the place of `saved` if it is not null. A call of
  // all ranks; throws AgreedError if they differ in configuration or data, or
  // one of them lacks something. `as_device`: see TrainOptions.
  Session(const TrainConfig& config, Communicator& comm, const ModelFile* saved,
          bool as_device = false);

  bool is_first() const { return comm.rank() == 0; }
  double rate() const { return schedule->rate(progress.place); }
  Densities densities() const {
    return {density_schedule.density(progress.epoch()), config.density};
  }
  void record(std::string_view what,
              std::chrono::steady_clock::time_point start) {
    trace.add(
        {what, 0, progress.done, start, std::chrono::steady_clock::now()});
  }

  PlanSite site() const;
  Machines machines() const { return {machine_of, comm.rank(), comm.size()}; }
  // Whether something is exchanged, by plans that may change.
  bool exchanges() const { return comm.size() > 1; }
  // Of what the sparsifier is to select from, by the plan as it is now; see
  // sluice/run/planning.h.
  double share_sent_whole() const;
  // Between two steps, a call of all ranks: goes on by another plan.
  void take_plan(const Decision& decision);

  // Work with files, which may be slow: the others wait for it for as long as
  // --write-timeout says. No call of the communicator.
  void at_files(const std::string& path, const std::function<void()>& work);

  TrainConfig config;
  std::string run;  // as in Origin
  Communicator& comm;
  Progress progress;
  std::uint64_t total = 0;  // steps at the end
  std::uint64_t threads = 1;
  std::uint64_t data = 0;               // fingerprint
  std::vector<std::size_t> machine_of;  // per rank; see SyncOptions
  std::unique_ptr<Task> task;
  LoaderOptions loading;
  std::unique_ptr<BatchSource> batches;
  torch::Device device = torch::kCPU;
  bool beside = false;  // the device computes while the host does other things
  bool alone = false;   // nothing is exchanged: gradients stay on the device
  // The device's gradients are selected and summed in host memory.
  bool goes_through_host() const {
    return !device.is_cpu() && backend->is_host();
  }
  std::unique_ptr<BatchFeed> feed;
  PlannedModel model;
  Task::Carried carried;  // from the last batch
  DensitySchedule density_schedule;
  Trace trace;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Backend> host;  // beside a device's; see SyncOptions
  // Null where gradients reach other ranks through the host; then why, unless
  // that was asked for.
  std::unique_ptr<DeviceLink> link;
  std::string link_problem;
  std::string imported;  // of --init, for people: what fitted
  // For people and summaries: "nccl", "mpi", or "" where no GPU exchanges.
  std::string_view gpu_link() const;
  std::unique_ptr<Study> study;  // or null
  std::unique_ptr<GradientSync> sync;
  std::unique_ptr<AutogradAdapter> adapter;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<LrSchedule> schedule;

 private:
  void set_threads(const ModelFile* saved);
  void load_data();
  void make_batches();
  void compare_data();
  std::string recorded_decisions(const ModelFile* saved);
  void make_model(bool as_device, const std::string& recorded);
  void compare_plans();
  void connect();
  void make_study_of_run();
  void make_parts();
  bool has_gpu_alone() const;
};

}  // namespace sluice
