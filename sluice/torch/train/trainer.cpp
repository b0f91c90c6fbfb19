#include "sluice/torch/train/trainer.h"

#include <cmath>

#include "sluice/config/recipe.h"
#include "sluice/core/ensure.h"
#include "sluice/core/hash.h"
#include "sluice/run/checkpoint_store.h"
#include "sluice/run/run_folder.h"
#include "sluice/torch/train/device.h"
#include "sluice/torch/train/evaluation.h"
#include "sluice/torch/train/late_numbers.h"
#include "sluice/torch/train/live_plan.h"
#include "sluice/torch/train/replicas.h"
#include "sluice/torch/train/reporting.h"
#include "sluice/torch/train/weights_import.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What the first rank adds to the notes of a step to ask for a checkpoint, or
// for another plan; below them they count the ranks that were told to stop.
constexpr std::uint64_t kSaveNote = std::uint64_t{1} << 32;
constexpr std::uint64_t kPlanNote = std::uint64_t{1} << 33;

// Skipped steps in a row after which nothing will get better by itself.
constexpr std::uint64_t kMostSkipped = 20;

std::unique_ptr<RunLock> begin_run(const TrainConfig& config,
                                   Communicator& comm) {
  compare_configs(comm, config);
  return lock_old_folder(comm, config);
}

// What a step came to.
struct Outcome {
  std::uint64_t step = 0;  // counted from 1
  StepTotals totals;
  // On a device that computes beside the host: the sums of losses and of the
  // training score, and whether the step was skipped; added to the totals once
  // read.
  torch::Tensor sums;
  std::optional<LateNumbers> late;
};

// The loop of training steps, and what is due between them.
class Trainer {
 public:
  Trainer(const TrainConfig& config, const TrainOptions& options,
          Communicator& comm);
  TrainSummary run();

 private:
  void step();
  void run_passes(Outcome& outcome);
  torch::Tensor forward(const Batch& batch, Outcome& outcome);
  void backward(const torch::Tensor& loss, bool last);
  void clip(double most);
  void check_loss(double loss, std::uint64_t step);
  void show_to_study(bool committed);
  void note_replaced(const BatchOutcome& batch, StepTotals& window);
  void apply(const SyncReport& report, Outcome& outcome);
  void settle(Outcome& outcome);
  void catch_up();
  void note_skip(std::uint64_t step);
  void look_after();
  bool at(const Every& every) const;
  bool is_save_due() const;
  void plan_anew();
  void evaluate_now();
  void save();
  void check_folder();
  [[noreturn]] void rescue();
  TrainSummary finish();
  std::string how_to_go_on() const;

  TrainOptions options_;
  std::unique_ptr<RunLock> lock_;
  std::optional<SavedRun> saved_;
  Session session_;
  Progress& progress_ = session_.progress;
  const TrainConfig& config_ = session_.config;
  std::optional<Reporting> reporting_;
  StepRange traced_;
  Profiling profiling_;
  std::optional<LivePlan> live_;
  std::optional<Outcome> unread_;  // of the last step, on a device
  std::uint64_t note_ = 0;         // of this step, to all ranks
  bool stopping_ = false;
  bool replaced_seen_ = false;
  std::uint64_t skipped_in_a_row_ = 0;
  std::uint64_t saved_at_ = ~std::uint64_t{0};
  Clock::time_point saved_time_ = Clock::now();
  Every save_every_ = parse_every("checkpoint_every", config_.checkpoint_every);
  bool save_due_ = false;
  bool plan_due_ = false;
  std::uint64_t evaluated_at_ = ~std::uint64_t{0};
};

Trainer::Trainer(const TrainConfig& config, const TrainOptions& options,
                 Communicator& comm)
    : options_(options),
      lock_(begin_run(config, comm)),
      saved_(find_saved_run(comm, config, options.resume)),
      session_(config, comm, saved_ ? &saved_->model : nullptr,
               options.as_device),
      traced_(parse_step_range(config.trace)),
      profiling_(session_) {
  const auto on_all = [&](auto&& part) {
    agree(comm, "start", progress_.done, problem_of(part));
  };
  if (saved_) {
    on_all([&] {
      session_.at_files(saved_->folder,
                        [&] { load_saved_run(*saved_, session_); });
    });
    saved_at_ = progress_.done;
  }
  if (!saved_ && !config_.init.empty()) {
    // The others get theirs with the broadcast.
    on_all([&] {
      if (!session_.is_first()) return;
      session_.at_files(config_.init, [&] {
        session_.imported =
            import_into(*session_.model.module, config_.model, config_.init);
      });
    });
  }
  const OldRun old = options_.overwrite        ? OldRun::kReplace
                     : options_.resume.empty() ? OldRun::kRefuse
                                               : OldRun::kResume;
  // Only now: what cannot begin leaves no folder behind.
  session_.config.out = open_run_folder(comm, config_, old, lock_);
  on_all([&] {
    if (saved_) abandon_others(*saved_, session_);
  });
  broadcast_tensors(comm, progress_.done, session_.model.parameters);
  broadcast_tensors(comm, progress_.done, session_.model.buffers);
  on_all([&] {
    if (session_.study != nullptr) {
      session_.study->open(config_.out, progress_.done);
    }
    live_.emplace(session_, profiling_);
    reporting_.emplace(session_, *lock_, options_.lines_to_stderr,
                       saved_ ? &*saved_ : nullptr);
    if (!session_.is_first()) return;
    if (!options_.about.empty()) {
      write_text(session_.config.out + "/about.json", options_.about);
    }
    if (options_.began) options_.began(session_.config.out);
  });
}

torch::Tensor Trainer::forward(const Batch& batch, Outcome& outcome) {
  const auto start = Clock::now();
  Task::Loss made;
  {
    const Autocast autocast(config_.precision == "bf16",
                            session_.device.type());
    made = session_.task->loss(*session_.model.module, batch, session_.carried);
  }
  const torch::Tensor mean = made.mean.detach();
  const torch::Tensor score =
      made.score.defined() ? made.score : torch::zeros_like(mean);
  outcome.totals.samples += made.samples;
  if (session_.beside) {
    const torch::Tensor sums =
        torch::stack({mean.to(torch::kFloat64) * made.samples, score});
    outcome.sums = outcome.sums.defined() ? outcome.sums + sums : sums;
  } else {
    const auto value = mean.item<double>();
    outcome.totals.loss += made.samples * value;
    outcome.totals.score += score.item<double>();
    check_loss(value, outcome.step);
  }
  session_.record("forward", start);
  return made.mean;
}

void Trainer::check_loss(double loss, std::uint64_t step) {
  if (std::isfinite(loss)) return;
  const std::string where =
      concat("[train] the loss must be finite, got ", loss, " on rank ",
             session_.comm.rank(), " in step ", step);
  ensure(config_.nonfinite != "stop", where,
         "; a lower --lr or --clip 1 may help, and --nonfinite skip goes on");
  if (skipped_in_a_row_ == 0) {
    std::fprintf(stderr, "%s; the step is skipped (--nonfinite skip)\n",
                 where.c_str());
  }
}

void Trainer::note_replaced(const BatchOutcome& batch, StepTotals& window) {
  if (batch.replaced == 0) return;
  window.replaced += static_cast<double>(batch.replaced);
  if (replaced_seen_) return;
  replaced_seen_ = true;
  std::fprintf(stderr,
               "[train] a sample cannot be read on rank %zu in step %llu, so "
               "the next one takes its place (broken=skip); further ones are "
               "only counted: %s\n",
               session_.comm.rank(),
               static_cast<unsigned long long>(progress_.done + 1),
               batch.problem.c_str());
}

void Trainer::step() {
  const auto start = Clock::now();
  session_.trace.turn(traced_.has(progress_.done + 1));
  Outcome outcome;
  outcome.step = progress_.done + 1;
  live_->begin_step();
  profiling_.begin_step();
  run_passes(outcome);
  if (config_.clip_local > 0) clip(config_.clip_local);
  SyncReport report = session_.adapter->finish();
  if (session_.study != nullptr) show_to_study(report.committed);
  if (session_.alone) report.notes = note_;
  apply(report, outcome);
  stopping_ = report.notes % kSaveNote > 0;
  save_due_ = (report.notes & kSaveNote) != 0;
  plan_due_ = (report.notes & kPlanNote) != 0;
  outcome.totals.steps = 1;
  if (session_.beside) {
    outcome.late.emplace(std::exchange(outcome.sums, {}));
    if (unread_) settle(*unread_);
    outcome.totals.seconds = since(start);
    unread_ = std::move(outcome);
  } else {
    outcome.totals.seconds = since(start);
    settle(outcome);
  }
  live_->add(since(start));
  ++progress_.done;
  ++progress_.place;
}

// Gradients are the mean over the ranks, as no clipping has changed them.
void Trainer::show_to_study(bool committed) {
  const std::uint64_t step = progress_.done + 1;
  std::vector<std::vector<float>> means;
  if (session_.study->is_due(step)) {
    for (const NamedTensor& p : session_.model.parameters) {
      const torch::Tensor mean =
          p.tensor.grad().to(torch::kCPU, torch::kFloat32).contiguous();
      const auto* values = mean.data_ptr<float>();
      means.emplace_back(values, values + mean.numel());
    }
  }
  agree(session_.comm, "study", step, problem_of([&] {
          session_.study->finish(session_.comm, step, committed, means);
        }));
}

// Forward and backward over all batches of a step.
void Trainer::run_passes(Outcome& outcome) {
  const auto passes = static_cast<std::uint64_t>(config_.accumulate);
  const auto seed = static_cast<std::uint64_t>(config_.seed);
  BatchFeed& feed = *session_.feed;
  feed.seek({progress_.epoch(), progress_.step_in_epoch() * passes});
  session_.adapter->clear();
  if (progress_.step_in_epoch() == 0) session_.carried.clear();
  const AutocastCache cast_once;
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    session_.model.module->seed_noise(
        mix64(mix64(seed, session_.comm.rank()), progress_.done, pass));
    const Batch batch = feed.next();
    note_replaced(batch.outcome, outcome.totals);
    const torch::Tensor loss = forward(batch, outcome);
    backward(passes > 1 ? loss / static_cast<double>(passes) : loss,
             pass + 1 == passes);
    // While the device is busy with this one.
    if (session_.beside && outcome.step < session_.total) feed.prefetch();
  }
}

void Trainer::backward(const torch::Tensor& loss, bool last) {
  if (last) {
    const bool stop = (options_.stop != nullptr && *options_.stop) ||
                      !reporting_->problem().empty();
    note_ = (stop ? 1 : 0) + (is_save_due() ? kSaveNote : 0) +
            (live_->asks() ? kPlanNote : 0);
    if (!session_.alone) {
      session_.sync->begin(progress_.done, session_.densities(), note_);
    }
    session_.adapter->begin(config_.clip_local > 0 || profiling_.looking());
  }
  if (last) profiling_.times().begin_backward();
  loss.backward();
}

void Trainer::clip(double most) {
  const NamedTensors& parameters = session_.model.parameters;
  const bool each = config_.clip_norm == "tensor";
  if (session_.beside) {
    (each ? clip_tensors_on_device : clip_on_device)(parameters, most);
  } else {
    (each ? clip_tensors : clip_gradients)(parameters, most);
  }
}

void Trainer::apply(const SyncReport& report, Outcome& outcome) {
  StepTotals& window = outcome.totals;
  window.selected = static_cast<double>(report.selected);
  window.budget = static_cast<double>(report.budget);
  window.sparse_elements = static_cast<double>(report.sparse_elements);
  window.dense_elements = static_cast<double>(report.dense_elements);
  window.bytes = static_cast<double>(report.traffic.bytes_sent);
  window.exposed = report.exposed_seconds;
  window.select = report.select_seconds;
  window.wire = report.exchange_seconds;
  window.skipped = report.committed ? 0 : 1;
  if (!report.committed) return;
  const auto start = Clock::now();
  const NamedTensors& parameters = session_.model.parameters;
  // Where nothing is exchanged nobody has looked at the gradients yet.
  torch::Tensor skip;
  if (session_.alone) {
    skip = find_nonfinite(parameters);
    outcome.sums = torch::cat({outcome.sums, skip});
  }
  if (config_.clip > 0) clip(config_.clip);
  profiling_.times().begin_update();
  session_.optimizer->step(session_.rate(), skip);
  profiling_.times().end();
  session_.record("optimizer", start);
}

// What is to be said of a step once all of it is known: of a device's, while it
// computes the next one.
void Trainer::settle(Outcome& outcome) {
  StepTotals& totals = outcome.totals;
  if (outcome.late) {
    const std::vector<double> numbers = outcome.late->get();
    totals.loss = numbers[0];
    totals.score = numbers[1];
    if (numbers.size() > 2 && numbers[2] != 0) totals.skipped = 1;
    check_loss(totals.mean_loss(), outcome.step);
  }
  if (totals.skipped > 0) {
    note_skip(outcome.step);
  } else {
    skipped_in_a_row_ = 0;
  }
  reporting_->add(totals);
}

void Trainer::catch_up() {
  if (!unread_) return;
  const auto start = Clock::now();
  Outcome last = *std::exchange(unread_, std::nullopt);
  last.late->get();
  last.totals.seconds += since(start);
  settle(last);
}

void Trainer::note_skip(std::uint64_t step) {
  ensure(config_.nonfinite != "stop", "[train] gradients must be finite, but ",
         "are not in step ", step,
         "; a lower --lr or --clip 1 may help, and --nonfinite skip goes on");
  if (++skipped_in_a_row_ == 1) {
    reporting_->say(
        concat("[train] step ", step,
               " is skipped: gradients are not finite (--nonfinite skip)"));
  }
  if (skipped_in_a_row_ < kMostSkipped) return;
  throw AgreedError(
      concat("[train] gradients must be finite, but have not been in ",
             kMostSkipped, " steps in a row, up to step ", step,
             "; resume from a checkpoint with a lower --lr or with --clip 1"),
      0);
}

bool Trainer::at(const Every& every) const {
  const std::uint64_t period = every.period(progress_.steps_per_epoch);
  const std::uint64_t count =
      every.unit == Every::Unit::kEpochs ? progress_.place : progress_.done;
  return period > 0 && count % period == 0;
}

void Trainer::look_after() {
  const auto check = static_cast<std::uint64_t>(config_.replica_check);
  if (check > 0 && progress_.done % check == 0) {
    check_replicas(session_.comm, progress_.done, session_.model.parameters);
  }
  const bool last = progress_.done >= session_.total || stopping_;
  const auto period = static_cast<std::uint64_t>(config_.log_every);
  if (progress_.done % period == 0 || last) {
    catch_up();
    reporting_->log();
  }
  if (progress_.done == traced_.last || last) reporting_->write_trace();
  if (plan_due_ && !last) plan_anew();
  if (at(parse_every("eval_every", config_.eval_every))) evaluate_now();
  if (at(save_every_) || save_due_) save();
}

// By the clock of the first rank; the others hear of it as of a stop.
bool Trainer::is_save_due() const {
  return session_.is_first() && save_every_.unit == Every::Unit::kSeconds &&
         save_every_.count > 0 &&
         since(saved_time_) >= static_cast<double>(save_every_.count);
}

void Trainer::plan_anew() {
  catch_up();
  reporting_->planned(live_->decide());
}

void Trainer::evaluate_now() {
  if (evaluated_at_ == progress_.done) return;
  catch_up();
  evaluated_at_ = progress_.done;
  // Without gradients twice the batch fits where training did.
  const auto batch = std::min<std::uint64_t>(
      256, 2 * static_cast<std::uint64_t>(config_.batch_size));
  average_tensors(session_.comm, progress_.done, session_.model.buffers);
  const Evaluation result =
      evaluate(session_.comm, progress_.done, *session_.model.module,
               session_.device, *session_.task, batch, session_.loading);
  session_.schedule->observe(result.loss);
  reporting_->evaluated(result);
}

void Trainer::save() {
  if (saved_at_ == progress_.done) return;
  catch_up();
  check_folder();
  try {
    reporting_->saved(save_checkpoint(session_, reporting_->best_score()));
  } catch (const AgreedError&) {
    // The folder may have gone in the midst of it.
    check_folder();
    throw;
  }
  saved_at_ = progress_.done;
  saved_time_ = Clock::now();
}

void Trainer::check_folder() {
  const auto state = lock_->look_together(session_.comm, progress_.done);
  if (state == RunLock::State::kGone) rescue();
  if (state == RunLock::State::kOurs) return;
  throw AgreedError(lock_->describe(state), 0);
}

// The folder has gone, what is in memory has not.
void Trainer::rescue() {
  const std::string what = concat(lock_->describe(RunLock::State::kGone),
                                  " before step ", progress_.done + 1);
  session_.config.out = free_folder(config_.out + ".rescued");
  std::unique_ptr<RunLock> lock;  // of the new folder
  try {
    session_.config.out =
        open_run_folder(session_.comm, config_, OldRun::kRefuse, lock);
    agree(session_.comm, "rescue", progress_.done,
          problem_of([&] { reporting_->write_setup(); }));
    save_checkpoint(session_, reporting_->best_score());
    lock->release(session_.comm, progress_.done);
  } catch (const AgreedError& e) {
    throw AgreedError(
        concat(what, "; it could not be saved elsewhere: ", e.what()), 0);
  }
  throw AgreedError(
      concat(what, "; it was saved in '", config_.out,
             "': go on with: sluice train --resume ", config_.out),
      0);
}

TrainSummary Trainer::finish() {
  const std::string profile = profiling_.finish();
  if (!profile.empty()) reporting_->say(profile);
  const TrainSummary summary =
      reporting_->finish(stopping_ && progress_.done < session_.total);
  std::string problem = reporting_->problem();
  if (!problem.empty()) {
    problem += concat("; the run was saved after step ", progress_.done,
                      ": go on with: sluice train --resume ", config_.out);
  }
  agree(session_.comm, "end", progress_.done, problem);
  lock_->release(session_.comm, progress_.done);
  return summary;
}

std::string Trainer::how_to_go_on() const {
  const std::string good = CheckpointStore::find(config_.out);
  if (good.empty()) {
    return concat(
        "there is no checkpoint yet (--checkpoint-every): start again"
        " with --out ",
        config_.out, " --overwrite");
  }
  return concat("the last good checkpoint is ", good,
                ": go on with: sluice train --resume ", config_.out);
}

TrainSummary Trainer::run() try {
  check_replicas(session_.comm, progress_.done, session_.model.parameters);
  while (progress_.done < session_.total && !stopping_) {
    with_memory(session_.device, [&] { step(); });
    look_after();
  }
  if (!stopping_ && parse_every("eval_every", config_.eval_every).count > 0) {
    evaluate_now();
  }
  save();
  return finish();
} catch (const CommError& e) {
  throw CommError(concat(e.what(), "; ", how_to_go_on()), e.rank(),
                  e.suspect());
}

}  // namespace

TrainSummary run_training(const TrainConfig& config,
                          const TrainOptions& options, Communicator& comm) {
  TrainConfig chosen = config;
  choose_recipe(chosen);
  choose_device(chosen);
  return Trainer(chosen, options, comm).run();
}

}  // namespace sluice
