#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sluice/python/runner_plan.h"
#include "sluice/python/settings.h"
#include "sluice/python/tentative.h"
#include "sluice/sparsify/schedule.h"

namespace sluice {

// A GradientSync with all that it runs on, for who hands gradients over in
// parts and wants to be told when they are the mean. Counts the steps, and ends
// each of them on a thread of its own. Knows nothing of Python.
//
// announce() and what only looks may be called from any thread, everything else
// between two steps.
class SyncRunner {
 public:
  struct Gradient {
    std::size_t tensor;
    TensorView view;
    Event event;
    MemoryOwner scratch;  // see GradientSync::ready()
  };
  // What a step came to: a report, or an error.
  struct Outcome {
    SyncReport report;
    std::exception_ptr error;
  };
  using Done = std::function<void(const Outcome&)>;

  // A call of all ranks. `settings`: see SyncSettings::from_json(). Gradients
  // are on that GPU, or in host memory. Throws AgreedError for what is wrong
  // with any rank's, CommError.
  // `beside`: see SyncOptions.
  SyncRunner(std::unique_ptr<Engine> engine, std::optional<int> gpu,
             std::vector<TensorInfo> tensors, const std::string& settings,
             const decltype(SyncOptions::beside)& beside = {});
  // A step that has begun is given up at once, which the other ranks are told.
  ~SyncRunner();
  SyncRunner(const SyncRunner&) = delete;
  SyncRunner& operator=(const SyncRunner&) = delete;

  // Some gradients of a step, which begins with the first and ends with the
  // last of all tensors. `done` is called on the runner's thread, when all of
  // the step is done. Throws std::runtime_error after a step that failed, until
  // recover(), and if a gradient comes twice: then the step before was
  // abandoned, which the other ranks are told.
  void announce(const std::vector<Gradient>& gradients, Done done);

  // Returns when no step is under way of which all gradients are there, and all
  // who brought them have been told. Not to be called by them.
  void wait();

  // Behind the last announcement of a step. Throws std::invalid_argument if
  // gradients are missing, which would be waited for without end: the step is
  // then given up, which the other ranks are told.
  void expect_all();

  // Gives up a step that has begun: calls that wait for other ranks end within
  // 0.2 s, and all ranks learn `why`. May be called from any thread.
  void interrupt(const std::string& why);

  // After a step that failed, on all ranks: see GradientSync::recover(). First
  // waits until all who brought its gradients have been told. Not to be called
  // by them.
  Recovered recover();

  GradientSync::State save() const;
  // As of so many steps.
  void load(const GradientSync::State& state, std::uint64_t steps);
  // See RunnerPlan. A call of all ranks; takes what decision() gave after so
  // many steps, where plans are decided by what steps take.
  bool decides_live() const { return plan_->live(); }
  std::string decision() const;
  void repeat(const std::string& decision, std::uint64_t steps);

  // See RunnerPlan::take_news().
  std::string take_news();
  // A backward pass of which nothing is exchanged or kept. A step in front of
  // which not all ranks had as many of them fails with a CommError.
  void pass();
  // See Tentative. After a CommError of discard(), recover() is due.
  void enter_tentative();
  void leave_tentative();
  void discard();
  // A call of all ranks: the density of the steps from now on, and the end of a
  // warm-up. Throws AgreedError on all of them for what is no density, and if
  // they ask for different ones; CommError, after which recover() is due.
  void set_density(double density);

  // A call of all ranks: what each brings, on the first; its own on the others.
  // `what` names it in errors. After a CommError recover() is due.
  std::vector<Bytes> gather(std::string_view what,
                            std::span<const std::byte> mine);

  // Of this rank: the last step and all so far, as JSON.
  std::string stats() const;
  // Writes the timeline of the next so many steps, of all ranks, who must all
  // ask for it before the same step.
  void trace(std::uint64_t steps, const std::string& path);

  std::size_t rank() const { return comm_.rank(); }
  std::size_t size() const { return comm_.size(); }
  std::uint64_t steps() const;
  bool skipped() const;      // the last step
  std::string plan() const;  // as JSON
  // By which GPUs exchange: "nccl", or "" where all goes through the host, and
  // why it does; empty if that was asked for, or nothing is to be exchanged.
  std::string_view link() const { return link_ ? link_->name() : ""; }
  const std::string& link_problem() const { return link_problem_; }
  const std::vector<std::string>& names() const { return names_; }
  // Elements that residuals have of each tensor.
  std::vector<std::size_t> sizes() const;

 private:
  void connect(int gpu);
  void begin();
  // Each rank's own since the last step, or what is exchanged would be of
  // different batches.
  void compare_passes();
  // What ranks do together between two steps.
  template <class F>
  void between_steps(F&& f);
  // Null: that of the settings.
  void take_density(std::optional<double> density);
  // After an error, which may have met some ranks before and others behind a
  // change: all have that of the first.
  void share_density();
  // Of a step of which all is there.
  void wait_for_end(std::unique_lock<std::mutex>& lock);
  void take(const Gradient& gradient);
  void release();
  // Tells those who brought gradients, without the lock.
  void give_up(std::unique_lock<std::mutex>& lock, const std::string& why);
  void refuse_after_failure() const;
  void run();
  Outcome finish();
  void count(const SyncReport& report);
  // If its last step is done.
  void write_trace();

  SyncSettings settings_;
  std::unique_ptr<Backend> backend_;
  Communicator comm_;
  std::vector<std::string> names_;
  Trace trace_;
  std::uint64_t trace_until_ = 0;
  std::string trace_path_;
  std::optional<DensitySchedule> schedule_;
  std::optional<double> density_;  // that was set in its place
  std::unique_ptr<DeviceLink> link_;
  std::string link_problem_;
  std::unique_ptr<GradientSync> sync_;
  std::vector<Treatment> treatments_;
  std::unique_ptr<RunnerPlan> plan_;
  std::unique_ptr<Tentative> tentative_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t step_ = 0;  // of those that are done
  bool open_ = false;       // a step has begun, and is not done
  bool counted_ = true;     // the last step that has begun is among them
  bool stopping_ = false;
  bool telling_ = false;        // those who brought gradients what came of them
  std::vector<bool> there_;     // per tensor, in the step
  std::vector<Gradient> held_;  // until all are there
  std::size_t missing_ = 0;
  std::vector<Done> dones_;
  std::string failure_;  // of the last step, until recover()
  SyncReport last_;
  SyncReport total_;
  Recovered recovered_ = Recovered::kNoStep;  // by the last recover()
  // What a recover() has found out that then failed.
  Recovered recovering_ = Recovered::kNoStep;
  std::uint64_t committed_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint64_t passed_ = 0;      // backward passes that were paused
  std::uint64_t passed_now_ = 0;  // of them, since the last step
  std::size_t memory_bytes_ = 0;  // behind the last step
  std::thread thread_;
};

}  // namespace sluice
