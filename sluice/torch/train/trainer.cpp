#include "sluice/torch/train/trainer.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "sluice/core/ensure.h"
#include "sluice/core/hash.h"
#include "sluice/run/checkpoint_store.h"
#include "sluice/run/rank_part.h"
#include "sluice/run/ranks.h"
#include "sluice/run/run_folder.h"
#include "sluice/run/timeline.h"
#include "sluice/sparsify/schedule.h"
#include "sluice/torch/data/loader.h"
#include "sluice/torch/train/adapter.h"
#include "sluice/torch/train/evaluation.h"
#include "sluice/torch/train/job.h"
#include "sluice/torch/train/model_file.h"
#include "sluice/torch/train/replicas.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Skipped steps in a row after which nothing will get better by itself.
constexpr std::uint64_t kMostSkipped = 20;

class Trainer {
 public:
  Trainer(const TrainConfig& config, const TrainOptions& options,
          Communicator& comm)
      : config_(config),
        options_(options),
        comm_(comm),
        densities_(config.density_schedule, config.density),
        traced_(parse_step_range(config.trace)) {
    compare_configs(comm_, config_);
    find_checkpoint();
    set_threads();
    agree_on([&] { load_data(); });
    compare_data();
    agree_on([&] { make_parts(); });
    agree_on([&] { load_checkpoint(); });
    // Only now: what cannot begin leaves no folder behind.
    config_.out = open_run_folder(comm_, config_,
                                  options_.overwrite        ? OldRun::kReplace
                                  : options_.resume.empty() ? OldRun::kRefuse
                                                            : OldRun::kResume);
    broadcast_tensors(comm_, progress_.done, job_.parameters);
    broadcast_tensors(comm_, progress_.done, job_.buffers);
    agree_on([&] { open_metrics(); });
  }

  TrainSummary run();

 private:
  void find_checkpoint();
  void set_threads();
  void load_data();
  void compare_data();
  void make_parts();
  void load_checkpoint();
  void open_metrics();
  template <class F>
  void agree_on(F&& f) {
    agree(comm_, "start", progress_.done, problem_of(f));
  }

  void step();
  torch::Tensor forward(const Batch& batch, StepTotals& window);
  void check_loss(double loss);
  void note_replaced(const BatchOutcome& outcome, StepTotals& window);
  void apply(const SyncReport& report, StepTotals& window);
  void note_skip();
  void look_after();
  void log();
  void evaluate_now();
  void save();
  void write_parts(const std::string& folder);
  void write_trace();

  bool is_first() const { return comm_.rank() == 0; }
  bool at(const Every& every) const;
  void say(const std::string& line) {
    if (is_first()) metrics_->say(line);
  }
  double rate() const { return schedule_->rate(progress_.place); }
  double density() const { return densities_.density(progress_.epoch()); }
  Moment moment() const {
    return {progress_.done, progress_.epochs(), rate(), density()};
  }
  void record(std::string_view what, Clock::time_point start) {
    trace_.add({what, 0, progress_.done, start, Clock::now()});
  }

  TrainConfig config_;
  TrainOptions options_;
  Communicator& comm_;
  DensitySchedule densities_;
  StepRange traced_;
  Trace trace_;
  std::optional<ModelFile> saved_file_;
  std::string saved_folder_;
  std::uint64_t threads_ = 1;
  std::uint64_t data_ = 0;  // fingerprint
  std::unique_ptr<Dataset> train_;
  std::unique_ptr<Dataset> test_;
  LoaderOptions loading_;
  std::unique_ptr<Loader> loader_;
  torch::Device device_ = torch::kCPU;
  Job job_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<AutogradAdapter> adapter_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<LrSchedule> schedule_;
  std::unique_ptr<Metrics> metrics_;  // on rank 0

  Progress progress_;
  std::uint64_t total_ = 0;  // steps
  bool stopping_ = false;
  bool traced_written_ = false;
  bool replaced_seen_ = false;
  std::uint64_t skipped_in_a_row_ = 0;
  std::uint64_t saved_at_ = ~std::uint64_t{0};
  std::uint64_t evaluated_at_ = ~std::uint64_t{0};
  StepTotals window_;  // since the last log, of this rank
  StepTotals all_;     // of the run, of all ranks, on rank 0
  TrainSummary summary_;
};

void Trainer::find_checkpoint() {
  if (options_.resume.empty()) return;
  const bool if_any = options_.resume == "auto";
  std::string found;
  if (is_first()) {
    found = CheckpointStore::find(if_any ? config_.out : options_.resume);
  }
  saved_folder_ = share_first(comm_, "resume", 0, found);
  if (saved_folder_.empty() && if_any) return;
  agree(comm_, "resume", 0, problem_of([&] {
          ensure(!saved_folder_.empty(),
                 "[resume] expected a run folder with a checkpoint in it, got "
                 "'",
                 options_.resume,
                 "'; --resume auto starts a new run if there "
                 "is none");
          saved_file_ = read_model_file(model_file_path(saved_folder_));
          check_compatible(*saved_file_, config_);
        }));
  progress_ = saved_file_->progress;
  saved_at_ = progress_.done;
  summary_.best_accuracy = saved_file_->best_accuracy;
}

void Trainer::set_threads() {
  const std::size_t cores =
      std::max<std::size_t>(1, std::thread::hardware_concurrency());
  threads_ = static_cast<std::uint64_t>(config_.threads);
  if (threads_ == 0) {
    threads_ = std::max<std::size_t>(1, cores / comm_.local_size());
    // Sums over other numbers of threads have other bits.
    if (saved_file_ && saved_file_->ranks == comm_.size()) {
      threads_ = saved_file_->threads;
    }
  }
  at::set_num_threads(static_cast<int>(threads_));
}

void Trainer::load_data() {
  train_ = make_dataset(config_.dataset, {Split::kTrain, config_.data_dir});
  test_ = make_dataset(config_.dataset, {Split::kTest, config_.data_dir});
  SamplerOptions how;
  how.batch = static_cast<std::uint64_t>(config_.batch_size);
  how.rank = comm_.rank();
  how.ranks = comm_.size();
  how.seed = static_cast<std::uint64_t>(config_.seed);
  loading_.threads =
      data_threads(*train_, static_cast<std::size_t>(config_.data_threads),
                   comm_.local_size(), config_.device != "cpu");
  loading_.pinned = config_.device != "cpu";
  loading_.prefetch = static_cast<std::size_t>(config_.prefetch);
  loader_ = std::make_unique<Loader>(*train_, how, loading_);
  const auto passes = static_cast<std::uint64_t>(config_.accumulate);
  require(loader_->steps_per_epoch() >= passes, "[train] --accumulate must be ",
          "at most the ", loader_->steps_per_epoch(),
          " batches of an epoch, got ", passes);
  progress_ = progress_.in(loader_->steps_per_epoch() / passes);
  const std::uint64_t end =
      static_cast<std::uint64_t>(config_.epochs) * progress_.steps_per_epoch;
  total_ = config_.max_steps > 0
               ? static_cast<std::uint64_t>(config_.max_steps)
               : progress_.done + (end - std::min(end, progress_.place));
}

// Files on disks of their own may differ, and then some samples would be taken
// twice and others never.
void Trainer::compare_data() {
  data_ = mix64(train_->fingerprint(), test_->fingerprint());
  const auto all = gather_at_first(comm_, "comparison of data", progress_.done,
                                   std::as_bytes(std::span(&data_, 1)));
  std::string problem;
  for (std::size_t r = 0; r < all.size() && problem.empty(); ++r) {
    std::uint64_t theirs = 0;
    std::memcpy(&theirs, all[r].data(), sizeof(theirs));
    if (theirs == data_) continue;
    problem = concat("[train] all ranks must see the same data, but rank ", r,
                     " has other files or labels than rank 0 under '",
                     config_.data_dir, "'; copy them again, or share a folder");
  }
  agree(comm_, "comparison of data", progress_.done, problem);
}

void Trainer::make_parts() {
  device_ = device_of(config_, comm_.local_rank());
  job_ = make_job(config_, train_->input(), device_);
  backend_ = make_cpu_backend({threads_, ""});
  SyncOptions how;
  how.plan = job_.plan;
  how.seed = static_cast<std::uint64_t>(config_.seed);
  how.total_steps = total_;
  how.nonfinite =
      config_.nonfinite == "stop" ? NonFinite::kStop : NonFinite::kSkip;
  how.treatments = job_.treatments;
  how.trace = &trace_;
  sync_ = std::make_unique<GradientSync>(comm_, *backend_, job_.tensors, how);
  adapter_ = std::make_unique<AutogradAdapter>(*sync_, job_.parameters);
  optimizer_ = make_optimizer(config_.optimizer, job_.parameters);
  LrContext context;
  context.base = config_.lr;
  context.workers = static_cast<double>(comm_.size());
  context.steps_per_epoch = static_cast<double>(progress_.steps_per_epoch);
  context.epochs = config_.max_steps > 0
                       ? static_cast<double>(total_) / context.steps_per_epoch
                       : static_cast<double>(config_.epochs);
  schedule_ = make_lr_schedule(config_.lr_schedule, context);
}

void Trainer::load_checkpoint() {
  if (!saved_file_) return;
  copy_into("resume", saved_file_->parameters, job_.parameters);
  copy_into("resume", saved_file_->buffers, job_.buffers);
  optimizer_->load_state(saved_file_->optimizer);
  schedule_->load_state(saved_file_->schedule);
  GradientSync::State state = read_rank_parts(saved_folder_, saved_file_->ranks,
                                              comm_.rank(), comm_.size());
  const Plan old = plan_from_json(saved_file_->plan, job_.tensors.size());
  if (!(old == job_.plan)) {
    state.rules.clear();
    state.collectives.clear();
  }
  sync_->load(state);
  saved_file_->parameters.clear();
  saved_file_->buffers.clear();
  saved_file_->optimizer.clear();
}

void Trainer::open_metrics() {
  if (!is_first()) return;
  write_text(config_.out + "/config.json", to_json(config_));
  write_text(config_.out + "/plan.json", to_json(job_.plan));
  metrics_ = std::make_unique<Metrics>(Metrics::Options{
      config_.out, progress_.done, total_, options_.lines_to_stderr});
  const auto dense =
      std::count_if(job_.treatments.begin(), job_.treatments.end(),
                    [](const Treatment& t) { return t.dense; });
  say(concat(config_.model, " on ", config_.dataset, ": ",
             count_elements(job_.parameters), " parameters in ",
             job_.tensors.size(), " tensors (", dense, " stay dense) and ",
             job_.plan.buckets.size(), " buckets; ", comm_.size(), " workers, ",
             threads_, " threads each; ",
             config_.sparsifier == "none"
                 ? "dense"
                 : concat(config_.sparsifier, " at ", config_.density),
             "; ", config_.out));
  if (!device_.is_cpu()) {
    say(concat("computing on ", device_.str(),
               "; gradients go through host memory, where they are selected"));
  }
  if (!saved_file_) return;
  say(concat("resumed after step ", progress_.done, " from ", saved_folder_));
  if (saved_file_->data != 0 && saved_file_->data != data_) {
    say("the data are not those of the checkpoint: epochs have another order");
  }
  if (saved_file_->ranks == comm_.size()) return;
  say(concat("residuals of ", saved_file_->ranks, " workers went to ",
             comm_.size(), "; rules and collectives start anew"));
}

torch::Tensor Trainer::forward(const Batch& batch, StepTotals& window) {
  const auto start = Clock::now();
  // Both copies are done before loss.item() returns, and so before the loader
  // may write there again.
  const torch::Tensor labels = batch.labels.to(device_, true);
  torch::Tensor scores;
  torch::Tensor loss;
  {
    const Autocast autocast(config_.precision == "bf16", device_.type());
    scores = job_.model->forward(batch.images.to(device_, true));
    loss = torch::nn::functional::cross_entropy(scores, labels);
  }
  const auto samples = static_cast<double>(labels.size(0));
  const auto value = loss.item<double>();
  window.samples += samples;
  window.loss += samples * value;
  window.correct += count_correct(scores.detach(), labels);
  check_loss(value);
  record("forward", start);
  return loss;
}

void Trainer::check_loss(double loss) {
  if (std::isfinite(loss)) return;
  const std::string where =
      concat("[train] the loss must be finite, got ", loss, " on rank ",
             comm_.rank(), " in step ", progress_.done + 1);
  ensure(config_.nonfinite != "stop", where,
         "; a lower --lr or --clip 1 may help, and --nonfinite skip goes on");
  if (skipped_in_a_row_ == 0) {
    std::fprintf(stderr, "%s; the step is skipped (--nonfinite skip)\n",
                 where.c_str());
  }
}

void Trainer::note_replaced(const BatchOutcome& outcome, StepTotals& window) {
  if (outcome.replaced == 0) return;
  window.replaced += static_cast<double>(outcome.replaced);
  if (replaced_seen_) return;
  replaced_seen_ = true;
  std::fprintf(stderr,
               "[train] an image cannot be read on rank %zu in step %llu, so "
               "the next one takes its place (broken=skip); further ones are "
               "only counted: %s\n",
               comm_.rank(),
               static_cast<unsigned long long>(progress_.done + 1),
               outcome.problem.c_str());
}

void Trainer::step() {
  const auto start = Clock::now();
  trace_.turn(traced_.has(progress_.done + 1));
  const auto passes = static_cast<std::uint64_t>(config_.accumulate);
  const Position place = {progress_.epoch(),
                          progress_.step_in_epoch() * passes};
  if (!(loader_->position() == place)) loader_->seek(place);
  adapter_->clear();
  StepTotals window;
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    job_.model->seed_noise(
        mix64(mix64(static_cast<std::uint64_t>(config_.seed), comm_.rank()),
              progress_.done, pass));
    const Batch batch = loader_->next();
    note_replaced(batch.outcome, window);
    torch::Tensor loss = forward(batch, window);
    if (passes > 1) loss = loss / static_cast<double>(passes);
    if (pass + 1 == passes) {
      const bool stop = options_.stop != nullptr && *options_.stop;
      sync_->begin(progress_.done, density(), stop ? 1 : 0);
      if (config_.clip_local <= 0) adapter_->begin();
    }
    loss.backward();
  }
  if (config_.clip_local > 0) {
    clip_gradients(job_.parameters, config_.clip_local);
  }
  const SyncReport report = adapter_->finish();
  apply(report, window);
  stopping_ = report.notes > 0;
  window.steps = 1;
  window.seconds = since(start);
  window_.add(window);
  ++progress_.done;
  ++progress_.place;
}

void Trainer::apply(const SyncReport& report, StepTotals& window) {
  window.selected = static_cast<double>(report.selected);
  window.budget = static_cast<double>(report.budget);
  window.sparse_elements = static_cast<double>(report.sparse_elements);
  window.dense_elements = static_cast<double>(report.dense_elements);
  window.bytes = static_cast<double>(report.traffic.bytes_sent);
  window.exposed = report.exposed_seconds;
  window.select = report.select_seconds;
  window.wire = report.wire_seconds;
  if (!report.committed) {
    window.skipped = 1;
    note_skip();
    return;
  }
  skipped_in_a_row_ = 0;
  const auto start = Clock::now();
  if (config_.clip > 0) clip_gradients(job_.parameters, config_.clip);
  optimizer_->step(rate());
  record("optimizer", start);
}

void Trainer::note_skip() {
  ++summary_.skipped;
  if (++skipped_in_a_row_ == 1) {
    say(concat("[train] step ", progress_.done + 1,
               " is skipped: gradients are not finite (--nonfinite skip)"));
  }
  if (skipped_in_a_row_ < kMostSkipped) return;
  throw AgreedError(
      concat("[train] gradients must be finite, but have not been in ",
             kMostSkipped, " steps in a row, up to step ", progress_.done + 1,
             "; resume from a checkpoint with a lower --lr or with --clip 1"),
      0);
}

bool Trainer::at(const Every& every) const {
  const std::uint64_t period = every.period(progress_.steps_per_epoch);
  const std::uint64_t count = every.epochs ? progress_.place : progress_.done;
  return period > 0 && count % period == 0;
}

void Trainer::look_after() {
  const auto check = static_cast<std::uint64_t>(config_.replica_check);
  if (check > 0 && progress_.done % check == 0) {
    check_replicas(comm_, progress_.done, job_.parameters);
  }
  const bool last = progress_.done >= total_ || stopping_;
  const auto period = static_cast<std::uint64_t>(config_.log_every);
  if (progress_.done % period == 0 || last) log();
  if (progress_.done == traced_.last || last) write_trace();
  if (at(parse_every("eval_every", config_.eval_every))) evaluate_now();
  if (at(parse_every("checkpoint_every", config_.checkpoint_every))) save();
}

void Trainer::log() {
  if (window_.steps == 0) return;
  const auto parts = gather_at_first(comm_, "log", progress_.done,
                                     std::as_bytes(std::span(&window_, 1)));
  window_ = {};
  if (!is_first()) return;
  StepTotals sum;
  sum.ranks = static_cast<double>(comm_.size());
  for (const Bytes& bytes : parts) {
    StepTotals theirs;
    std::memcpy(&theirs, bytes.data(), sizeof(theirs));
    sum.add(theirs);
  }
  metrics_->trained(moment(), sum);
  summary_.loss = sum.mean_loss();
  all_.ranks = sum.ranks;
  all_.add(sum);
}

void Trainer::evaluate_now() {
  if (evaluated_at_ == progress_.done) return;
  // Without gradients twice the batch fits where training did.
  const auto batch = std::min<std::uint64_t>(
      256, 2 * static_cast<std::uint64_t>(config_.batch_size));
  average_tensors(comm_, progress_.done, job_.buffers);
  const Evaluation result = evaluate(comm_, progress_.done, *job_.model,
                                     device_, *test_, batch, loading_);
  schedule_->observe(result.loss);
  evaluated_at_ = progress_.done;
  summary_.eval_loss = result.loss;
  summary_.eval_accuracy = result.accuracy;
  summary_.best_accuracy = std::fmax(summary_.best_accuracy, result.accuracy);
  if (is_first()) metrics_->evaluated(moment(), result);
}

void Trainer::save() {
  if (saved_at_ == progress_.done) return;
  const std::uint64_t step = progress_.done;
  const CheckpointStore store(config_.out,
                              static_cast<std::size_t>(config_.keep));
  average_tensors(comm_, step, job_.buffers);
  try {
    agree(comm_, "checkpoint", step, problem_of([&] {
            if (is_first()) store.begin(step);
          }));
    agree(comm_, "checkpoint", step,
          problem_of([&] { write_parts(store.partial(step)); }));
    agree(comm_, "checkpoint", step, problem_of([&] {
            if (is_first()) summary_.checkpoint = store.publish(step);
          }));
  } catch (const AgreedError& e) {
    if (is_first()) store.discard(step);
    const std::string good = CheckpointStore::find(config_.out);
    throw AgreedError(
        concat(e.what(), good.empty()
                             ? "; there is no checkpoint of this run yet"
                             : "; the last good checkpoint is " + good),
        e.speaker());
  }
  saved_at_ = step;
}

void Trainer::write_parts(const std::string& folder) {
  write_rank_part(rank_part_path(folder, comm_.rank()), sync_->save());
  if (!is_first()) return;
  ModelFile file;
  file.progress = progress_;
  file.ranks = comm_.size();
  file.threads = threads_;
  file.config = config_;
  file.plan = to_json(job_.plan);
  file.schedule = schedule_->state();
  file.best_accuracy = summary_.best_accuracy;
  file.data = data_;
  file.parameters = job_.parameters;
  file.buffers = job_.buffers;
  file.optimizer = optimizer_->state();
  write_model_file(model_file_path(folder), file);
}

void Trainer::write_trace() {
  if (traced_.first == 0 || traced_written_ || trace_.spans().empty()) return;
  traced_written_ = true;
  trace_.turn(false);
  write_timeline(comm_, progress_.done, trace_, config_.out + "/trace.json");
}

TrainSummary Trainer::run() {
  check_replicas(comm_, progress_.done, job_.parameters);
  while (progress_.done < total_ && !stopping_) {
    step();
    look_after();
  }
  if (!stopping_ && parse_every("eval_every", config_.eval_every).steps > 0) {
    evaluate_now();
  }
  save();
  TrainSummary& s = summary_;
  s.folder = config_.out;
  s.model = config_.model;
  s.parameters = static_cast<std::uint64_t>(count_elements(job_.parameters));
  s.ranks = comm_.size();
  s.steps = progress_.done;
  s.epochs = progress_.epochs();
  s.memory_bytes = sync_->memory_bytes() + adapter_->memory_bytes();
  s.weights = hash_tensors(job_.parameters);
  s.stopped = stopping_ && progress_.done < total_;
  if (s.checkpoint.empty()) s.checkpoint = saved_folder_;
  if (!is_first()) return s;
  if (all_.steps > 0) {
    s.seconds = all_.seconds / all_.ranks;
    s.samples_per_s = all_.samples_per_second();
    s.step_s = all_.per_step(all_.seconds);
    s.exposed_s = all_.per_step(all_.exposed);
    s.bytes_per_step = all_.per_step(all_.bytes);
    s.density = all_.density();
    s.k_hat_over_k = all_.sent_over_budget();
    s.replaced = static_cast<std::uint64_t>(all_.replaced);
  }
  metrics_->finish();
  write_text(config_.out + "/summary.json", to_json(s));
  return s;
}

}  // namespace

TrainSummary run_training(const TrainConfig& config,
                          const TrainOptions& options, Communicator& comm) {
  return Trainer(config, options, comm).run();
}

}  // namespace sluice
