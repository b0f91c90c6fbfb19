#include "sluice/python/runner.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "sluice/collective/patterns.h"
#include "sluice/comm/nccl/nccl.h"
#include "sluice/core/ensure.h"
#include "sluice/python/agree_on.h"
#include "sluice/run/ranks.h"
#include "sluice/run/timeline.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

bool is_lost_rank(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CommError&) {
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void add(SyncReport& sum, const SyncReport& report) {
  sum.budget += report.budget;
  sum.selected += report.selected;
  sum.sparse_elements += report.sparse_elements;
  sum.dense_elements += report.dense_elements;
  sum.nonfinite += report.nonfinite;
  sum.lost += report.lost;
  sum.traffic.bytes_sent += report.traffic.bytes_sent;
  sum.traffic.bytes_received += report.traffic.bytes_received;
  sum.traffic.messages_sent += report.traffic.messages_sent;
  sum.exposed_seconds += report.exposed_seconds;
  sum.select_seconds += report.select_seconds;
  sum.exchange_seconds += report.exchange_seconds;
}

double ratio(std::uint64_t a, std::uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

Json to_json(const SyncReport& r) {
  return {
      {"bytes_sent", r.traffic.bytes_sent},
      {"bytes_received", r.traffic.bytes_received},
      {"messages_sent", r.traffic.messages_sent},
      {"density", ratio(r.selected + r.dense_elements,
                        r.sparse_elements + r.dense_elements)},
      {"selected_per_budget", r.budget > 0 ? ratio(r.selected, r.budget) : 1},
      {"sparse_elements", r.sparse_elements},
      {"dense_elements", r.dense_elements},
      {"nonfinite", r.nonfinite},
      {"lost", r.lost},
      {"exposed_seconds", r.exposed_seconds},
      {"select_seconds", r.select_seconds},
      {"exchange_seconds", r.exchange_seconds}};
}

const char* word_for(Recovered what) {
  switch (what) {
    case Recovered::kCommitted:
      return "committed";
    case Recovered::kSkipped:
      return "skipped";
    case Recovered::kFailed:
      return "failed";
    case Recovered::kNoStep:
      break;
  }
  return "";
}

// A call of all ranks, who must have done the same number of steps.
void compare_steps(Communicator& comm, std::uint64_t mine) {
  const std::size_t other =
      rank_that_differs(comm, "recover", Communicator::between_steps(3),
                        std::as_bytes(std::span(&mine, 1)));
  ensure(other == comm.rank(), "[sync] rank ", comm.rank(), " has done ", mine,
         " steps after recover(), but rank ", other,
         " another number; load the same state on all ranks");
}

}  // namespace

SyncRunner::SyncRunner(std::unique_ptr<Engine> engine, std::optional<int> gpu,
                       std::vector<TensorInfo> tensors,
                       const std::string& settings,
                       const decltype(SyncOptions::beside)& beside)
    : comm_(std::move(engine)), there_(tensors.size(), false) {
  SyncOptions how;
  const std::string problem = problem_of([&] {
    settings_ = SyncSettings::from_json(settings);
    const auto threads = static_cast<std::size_t>(settings_.config.threads);
    backend_ =
        gpu ? make_cuda_backend({*gpu}) : make_cpu_backend({threads, ""});
    how = sync_options(settings_, tensors, comm_, *backend_);
  });
  // Before anything else that all ranks must do: who has asked for another
  // deadline must not be the one who waits.
  comm_.set_timeout(std::chrono::duration_cast<Engine::Clock::duration>(
      std::chrono::duration<double>(settings_.config.timeout)));
  compare_settings(comm_, settings_, tensors, problem);
  schedule_.emplace(settings_.config.density_schedule,
                    settings_.config.density);
  for (const TensorInfo& t : tensors) names_.push_back(t.name);
  how.trace = &trace_;
  how.beside = beside;
  if (gpu && comm_.size() > 1) connect(*gpu);
  how.link = link_.get();
  agree(comm_, "attach", Communicator::kBetweenSteps, problem_of([&] {
          sync_ = std::make_unique<GradientSync>(comm_, *backend_,
                                                 std::move(tensors), how);
        }));
  treatments_ = how.treatments;
  const c10::Device device =
      gpu ? c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(*gpu))
          : c10::Device(c10::kCPU);
  memory_bytes_ = sync_->memory_bytes();
  plan_ = std::make_unique<RunnerPlan>(settings_, comm_, *backend_, treatments_,
                                       names_, device, *sync_);
  tentative_ = std::make_unique<Tentative>(comm_, *sync_);
  thread_ = std::thread([this] { run(); });
}

// A call of all ranks; without NCCL all goes through the host.
void SyncRunner::connect(int gpu) {
  if (settings_.config.gpu_link == "mpi") return;
  const std::string problem =
      settings_.config.net.empty()
          ? ""
          : "[attach] an emulated network is one of the host's";
  auto made = make_nccl_link(comm_, gpu, problem);
  link_ = std::move(made.link);
  link_problem_ = made.problem;
  const bool must = settings_.config.gpu_link == "nccl" && link_ == nullptr;
  agree(comm_, "attach", Communicator::kBetweenSteps,
        must ? concat(link_problem_, "; gpu_link=\"host\" works without NCCL")
             : std::string());
}

SyncRunner::~SyncRunner() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    const std::string why =
        concat("[sync] rank ", comm_.rank(), " closed its sync in step ",
               step_ + 1, "; was it told to stop?");
    if (open_) comm_.interrupt(why);
    try {
      if (open_ && missing_ > 0) give_up(lock, why);
    } catch (const std::exception&) {
      // The others notice that the connection is closed.
    }
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SyncRunner::interrupt(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (open_) comm_.interrupt(why);
}

void SyncRunner::refuse_after_failure() const {
  ensure(failure_.empty(), "[sync] step ", step_ + 1, " failed (", failure_,
         "); call recover() on all ranks before the next one");
}

void SyncRunner::begin() {
  // The step before may have ended well all the same.
  comm_.interrupt({});
  const std::uint64_t epoch =
      settings_.steps_per_epoch > 0 ? step_ / settings_.steps_per_epoch : 0;
  const Densities densities = {schedule_->density(epoch),
                               settings_.config.density};
  tentative_->begin_step();
  try {
    compare_passes();
    plan_->begin_step(step_, densities);
  } catch (const CommError&) {
    // The step fails by the same error, as it would at its first exchange: what
    // it brings is kept, and DDP hears of it where it can.
  }
  sync_->begin(step_, densities, plan_->note(trace_.on()));
  there_.assign(there_.size(), false);
  missing_ = there_.size();
  counted_ = false;
  open_ = true;
}

void SyncRunner::announce(const std::vector<Gradient>& gradients, Done done) {
  std::unique_lock lock(mutex_);
  // Backward may have ended by an error behind the last gradient.
  wait_for_end(lock);
  refuse_after_failure();
  if (!open_) begin();
  const auto known = [&](const Gradient& g) { return there_[g.tensor]; };
  if (std::ranges::any_of(gradients, known)) {
    give_up(lock, concat("[sync] the backward pass of step ", step_ + 1,
                         " did not come to its end on rank ", comm_.rank()));
    refuse_after_failure();
  }
  try {
    std::vector<std::size_t> tensors;
    for (const Gradient& g : gradients) tensors.push_back(g.tensor);
    const bool holds = plan_->holds();
    plan_->came(tensors);
    for (const Gradient& g : gradients) {
      holds ? held_.push_back(g) : take(g);
      there_[g.tensor] = true;
      --missing_;
    }
    if (missing_ == 0) {
      plan_->all_came();
      release();
    }
  } catch (const std::exception& e) {
    give_up(lock, e.what());
    throw;
  }
  dones_.push_back(std::move(done));
  if (missing_ == 0) changed_.notify_all();
}

void SyncRunner::wait_for_end(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return !open_ || missing_ > 0; });
}

void SyncRunner::wait() {
  std::unique_lock lock(mutex_);
  wait_for_end(lock);
  changed_.wait(lock, [&] { return !telling_; });
}

void SyncRunner::take(const Gradient& gradient) {
  sync_->ready(gradient.tensor, gradient.view, gradient.event,
               gradient.scratch);
}

void SyncRunner::release() {
  while (!held_.empty()) {
    const Gradient gradient = std::move(held_.back());
    held_.pop_back();
    take(gradient);
  }
}

void SyncRunner::expect_all() {
  std::unique_lock lock(mutex_);
  if (!open_ || missing_ == 0) return;
  const auto first = std::ranges::find(there_, false) - there_.begin();
  const std::string why = concat(
      "[sync] a backward pass must bring all gradients that sluice was "
      "attached to, but brought none of '",
      names_[static_cast<std::size_t>(first)], "' (", missing_, " of ",
      there_.size(),
      " are missing); attach to the model as it is wrapped, with the "
      "parameters that are to be trained");
  give_up(lock, why);
  throw std::invalid_argument(why);
}

void SyncRunner::give_up(std::unique_lock<std::mutex>& lock,
                         const std::string& why) {
  // Nothing is lost of those that are sound.
  while (!held_.empty()) problem_of([this] { release(); });
  sync_->give_up(why);
  open_ = false;
  failure_ = why;
  const auto dones = std::exchange(dones_, {});
  lock.unlock();
  const Outcome outcome = {{},
                           std::make_exception_ptr(std::runtime_error(why))};
  for (const Done& done : dones) done(outcome);
  lock.lock();
}

void SyncRunner::run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock,
                    [&] { return stopping_ || (open_ && missing_ == 0); });
      if (stopping_) return;
    }
    const Outcome outcome = finish();
    std::vector<Done> dones;
    {
      const std::lock_guard lock(mutex_);
      open_ = false;
      if (outcome.error != nullptr && is_lost_rank(outcome.error)) {
        failure_ = text_of(outcome.error);
      }
      dones.swap(dones_);
      telling_ = true;
      changed_.notify_all();
    }
    for (const Done& done : dones) done(outcome);
    dones.clear();
    const std::lock_guard lock(mutex_);
    telling_ = false;
    changed_.notify_all();
  }
}

SyncRunner::Outcome SyncRunner::finish() {
  Outcome outcome;
  try {
    outcome.report = sync_->finish();
    {
      const std::lock_guard lock(mutex_);
      count(outcome.report);
    }
    // The step was made, whatever becomes of its timeline.
    write_trace();
  } catch (...) {
    outcome.error = std::current_exception();
  }
  return outcome;
}

void SyncRunner::count(const SyncReport& report) {
  ++step_;
  counted_ = true;
  ++(report.committed ? committed_ : skipped_);
  plan_->end_step(report.notes);
  memory_bytes_ = sync_->memory_bytes();
  last_ = report;
  add(total_, report);
}

Recovered SyncRunner::recover() {
  std::unique_lock lock(mutex_);
  wait_for_end(lock);
  changed_.wait(lock, [&] { return !telling_; });
  if (open_) {
    give_up(lock, concat("[sync] rank ", comm_.rank(), " gave up step ",
                         step_ + 1, " to recover"));
  }
  const Recovered now = sync_->recover();
  if (now != Recovered::kNoStep) recovering_ = now;
  const Recovered what = recovering_;
  const bool committed = what == Recovered::kCommitted;
  // A rank that heard the decision has counted the step. This rank counts
  // nothing before the rest of the recovery has succeeded, since all of it may
  // fail and be repeated.
  const bool counts = (committed || what == Recovered::kSkipped) && !counted_;
  const std::uint64_t step = counts ? step_ + 1 : step_;
  compare_steps(comm_, step);
  plan_->recover(step);
  share_density();
  tentative_->recover();
  passed_now_ = 0;
  step_ = step;
  if (counts) {
    ++(committed ? committed_ : skipped_);
    last_.committed = committed;
  }
  counted_ = true;
  recovered_ = std::exchange(recovering_, Recovered::kNoStep);
  failure_.clear();
  return what;
}

GradientSync::State SyncRunner::save() const {
  const std::lock_guard lock(mutex_);
  expect(!open_, "[sync] states are saved and loaded between two steps");
  return sync_->save();
}

void SyncRunner::load(const GradientSync::State& state, std::uint64_t steps) {
  const std::lock_guard lock(mutex_);
  expect(!open_, "[sync] states are saved and loaded between two steps");
  sync_->load(state);
  tentative_->forget();
  step_ = steps;
}

std::string SyncRunner::decision() const {
  const std::lock_guard lock(mutex_);
  return plan_->decision();
}

void SyncRunner::repeat(const std::string& decision, std::uint64_t steps) {
  const std::lock_guard lock(mutex_);
  expect(!open_, "[sync] states are saved and loaded between two steps");
  refuse_after_failure();
  plan_->repeat(decision, steps);
}

std::string SyncRunner::take_news() {
  const std::lock_guard lock(mutex_);
  return plan_->take_news();
}

std::string SyncRunner::stats() const {
  const std::lock_guard lock(mutex_);
  Json json = {{"step", step_},
               {"committed", committed_},
               {"skipped", skipped_},
               {"paused", passed_},
               {"discarded", tentative_->discards()},
               {"last_committed", last_.committed},
               {"recovered", word_for(recovered_)},
               {"memory_bytes", memory_bytes_},
               {"plan",
                {{"name", sync_->plan().name},
                 {"since", plan_->since()},
                 {"why", plan_->why()}}},
               {"last", to_json(last_)},
               {"total", to_json(total_)}};
  return json.dump();
}

void SyncRunner::trace(std::uint64_t steps, const std::string& path) {
  const std::lock_guard lock(mutex_);
  require(steps > 0, "[trace] steps must be at least 1, got 0");
  expect(!open_ && !trace_.on(),
         "[trace] a timeline begins between two steps, and one at a time");
  trace_until_ = step_ + steps;
  trace_path_ = path;
  trace_.clear();
  trace_.turn(true);
}

void SyncRunner::write_trace() {
  if (!trace_.on() || step_ != trace_until_) return;
  trace_.turn(false);
  write_timeline(comm_, step_ - 1, trace_, bucket_labels(sync_->plan(), names_),
                 trace_path_);
}

std::uint64_t SyncRunner::steps() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

bool SyncRunner::skipped() const {
  const std::lock_guard lock(mutex_);
  return step_ > 0 && !last_.committed;
}

std::string SyncRunner::plan() const {
  const std::lock_guard lock(mutex_);
  return to_json(sync_->plan(), names_);
}

}  // namespace sluice
