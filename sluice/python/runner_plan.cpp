#include "sluice/python/runner_plan.h"

#include <c10/core/DeviceGuard.h>

#include <utility>

#include "sluice/core/error.h"
#include "sluice/run/machine.h"
#include "sluice/run/ranks.h"

namespace sluice {

RunnerPlan::RunnerPlan(const SyncSettings& settings, Communicator& comm,
                       Backend& backend, std::span<const Treatment> treatments,
                       std::span<const std::string> names,
                       const c10::Device& device, GradientSync& sync)
    : settings_(settings),
      comm_(comm),
      backend_(backend),
      treatments_(treatments),
      names_(names),
      device_(device),
      sync_(sync),
      live_(comm.size() > 1 && !settings.follow && settings.plan.empty() &&
            plans_live(settings.config)),
      times_(sync.tensors(), device, 0) {
  if (!settings.plan.empty()) {
    recorded_ = decisions_from_json(settings.plan, names);
  }
  if (live_) look();
  end_step(0);
}

void RunnerPlan::look() {
  measuring_ = true;
  times_.restart(kLiveSteps);
}

void RunnerPlan::begin_step(std::uint64_t step, const Densities& densities) {
  times_.begin_backward();
  const auto together = std::exchange(together_, {});
  if (due_) decide(step, densities);
  if (recorded_.size() > 1) follow_record(step);
  if (settings_.follow) follow(step, together);
}

std::uint64_t RunnerPlan::note(bool traced) const {
  return measuring_ && comm_.rank() == 0 && times_.done() && !traced ? 1 : 0;
}

void RunnerPlan::came(std::span<const std::size_t> tensors) {
  if (settings_.follow) together_.emplace_back(tensors.begin(), tensors.end());
  for (const std::size_t t : tensors) times_.ready(t);
}

void RunnerPlan::all_came() {
  times_.begin_update();
  times_.end();
}

void RunnerPlan::end_step(std::uint64_t notes) {
  due_ = notes > 0;
  const auto now = std::chrono::steady_clock::now();
  const bool watches = live_ && settings_.config.replan == "drift";
  if (watches && !measuring_ && ended_ &&
      drift_.add(std::chrono::duration<double>(now - *ended_).count())) {
    look();
  }
  ended_ = now;
  times_.begin();
}

// Also after an error, or from a state, that left the sync with another plan.
void RunnerPlan::follow_record(std::uint64_t step) {
  const Decision& now = decision_at(recorded_, step);
  if (now.plan != sync_.plan()) take(now, step);
}

// DDP changes its buckets once, before the second step: from the third on what
// comes together travels together. A call of all ranks, whose DDP sees to it
// that they have the same buckets.
void RunnerPlan::follow(std::uint64_t step,
                        const std::vector<Together>& together) {
  constexpr std::size_t kSettled = 2;
  if (watched_ > kSettled || watched_++ < kSettled) return;
  Plan plan = sync_.plan();
  const BucketPlan alike = plan.buckets.at(0);
  plan.buckets.clear();
  for (const Together& tensors : together) {
    plan.buckets.push_back(alike);
    plan.buckets.back().tensors = tensors;
  }
  sync_.replan(plan, {}, step);
}

// Of the first rank. Whatever the model is called, nobody told.
Profile RunnerPlan::seen() const {
  Profile out = times_.profile();
  out.machine = device_.is_cpu() ? processor_name() : "a GPU";
  out.date = today();
  return out;
}

void RunnerPlan::decide(std::uint64_t step, const Densities& densities) {
  due_ = false;
  // Threads of autograd and of the user need not have chosen it.
  const c10::DeviceGuard guard(device_);
  const auto threads = static_cast<std::size_t>(settings_.config.threads);
  Decisions decisions = {{0, {}, {}, sync_.plan()}};
  comm_.count_steps(1, 1);
  decide_live(
      {settings_.config, comm_, backend_, threads, model(),
       plan_site(settings_.config, comm_, backend_, 1, threads), nullptr, step,
       densities, sync_.plan()},
      [this] { return seen(); }, decisions);
  comm_.count_steps(1, 0);
  take(decisions.back(), step);
}

void RunnerPlan::take(const Decision& decision, std::uint64_t step) {
  const double before = share_sent_whole(sync_.plan(), model());
  sync_.replan(decision.plan, decision.network, step);
  decided_ = decision;
  note_if_dense(before);
  measuring_ = false;
  drift_.restart();
}

// Where a plan has come to send whole what was to be selected from.
void RunnerPlan::note_if_dense(double before) {
  const TrainConfig& config = settings_.config;
  if (comm_.rank() != 0 || config.sparsifier == "none") return;
  const double share = share_sent_whole(sync_.plan(), model());
  constexpr double kMost = 0.5;
  if (share <= kMost || before > kMost) return;
  news_ = concat(
      "[sluice] from step ", decided_.step + 1, " on ",
      static_cast<int>(100 * share), " % of what sparsifier \"",
      config.sparsifier, "\" was to select from is sent whole, since plan \"",
      config.plan, "\" found: ", decided_.why,
      "; plan=\"fixed\" keeps the sparsifier at density ", config.density,
      ", sparsifier=\"none\" says that all is to be sent");
}

void RunnerPlan::repeat(const std::string& decision, std::uint64_t step) {
  due_ = false;
  const Decisions theirs = decisions_from_json(decision, names_);
  take(recorded_.empty() ? theirs.back() : decision_at(recorded_, step), step);
}

std::string RunnerPlan::decision() const {
  return decided_.step == 0 ? "" : record();
}

std::string RunnerPlan::record() const {
  Decisions out = {{0, {}, {}, sync_.plan()}};
  if (decided_.step > 0) out.push_back(decided_);
  return to_json(out, names_);
}

void RunnerPlan::recover(std::uint64_t step) {
  due_ = false;
  watched_ = 0;
  times_.begin();
  if (!live() && !settings_.follow) return;
  const std::string first = broadcast_first(
      comm_, "recover", Communicator::between_steps(4), record());
  decided_ = decisions_from_json(first, names_).back();
  sync_.replan(decided_.plan, decided_.network, step);
}

}  // namespace sluice
