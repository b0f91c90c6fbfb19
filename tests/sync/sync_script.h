#pragma once

#include <optional>

#include "sluice/core/ensure.h"
#include "sync/sync_support.h"

// Runs that lose messages: each rank follows the same script, recovers from
// whatever happens, and keeps accounts of its gradients.

namespace sluice::testing {

// What all ranks do in one step, agreed before the run.
struct ScriptedStep {
  std::optional<std::size_t> bad_rank;   // its gradient is not finite
  std::optional<std::size_t> quit_rank;  // gives the first attempt up
  std::optional<Plan> plan;              // taken up before the step
};

struct Script {
  Scenario job;
  std::vector<ScriptedStep> steps;
  // Without a network, ranks measure one in the first step.
  std::optional<Network> network = Network{};
};

// What a rank has brought, received and kept, in all of its steps.
struct Account {
  std::vector<double> brought = std::vector<double>(total_size());
  std::vector<double> size = std::vector<double>(total_size());  // of it all
  std::vector<double> received = std::vector<double>(total_size());
  std::vector<float> residual;
  std::vector<std::uint64_t> committed;  // steps
  std::size_t recoveries = 0;
};

// One rank of a run. Its loop is that of a program that goes on after errors.
class ScriptedRank {
 public:
  // `over`: set by the first rank that has done all steps; no message may be
  // lost from then on, as a rank that has left cannot help another to recover.
  ScriptedRank(Communicator& comm, LinkHub& hub, const Script& script,
               std::atomic<bool>& over)
      : comm_(comm),
        script_(script),
        over_(over),
        backend_(make_backend(script.job.backend)),
        link_(make_link(script.job.backend, hub, comm, *backend_)),
        device_(*backend_),
        sync_(comm, *backend_, kTensors, options_of(script, link_.get())),
        plan_(plan_of(script.job)),
        has_quit_(script.steps.size()) {}

  // Called after each recovery.
  std::function<void()> on_recovery;

  Account run() {
    while (!done()) {
    }
    account_.residual = sync_.save().residual;
    return account_;
  }

 private:
  static constexpr std::size_t kMostRecoveries = 100;

  static SyncOptions options_of(const Script& script, DeviceLink* link) {
    SyncOptions options;
    options.link = link;
    options.plan = plan_of(script.job);
    options.network = script.network;
    options.machine_of = script.job.machine_of;
    return options;
  }

  // The plan that the script has for a step.
  const Plan& plan_for(std::uint64_t step) const {
    for (std::uint64_t s = step + 1; s-- > 0;) {
      if (script_.steps[s].plan) return *script_.steps[s].plan;
    }
    return plan_;
  }

  // One attempt of a step or, behind the last, of a barrier: a rank must not
  // leave while another may have to recover.
  bool done() {
    if (step_ == script_.steps.size()) {
      over_ = true;
      try {
        comm_.barrier(1000);
        return true;
      } catch (const CommError&) {
        recover();
        return false;
      }
    }
    const ScriptedStep& script = script_.steps[step_];
    gradients_ = gradients_of(comm_.rank(), step_);
    if (script.bad_rank == comm_.rank()) gradients_[2][7] = NAN;
    announced_.assign(kTensors.size(), false);
    try {
      if (sync_.plan() != plan_for(step_)) {
        sync_.replan(plan_for(step_), {}, step_);
      }
      const bool quits = script.quit_rank == comm_.rank() && !has_quit_[step_];
      quits ? quit() : attempt();
    } catch (const CommError&) {
      recover();
    }
    return false;
  }

  void attempt() {
    announced_.assign(kTensors.size(), true);
    const SyncReport report = device_.run(sync_, step_, gradients_);
    end_step(report.committed ? Recovered::kCommitted : Recovered::kSkipped);
  }

  // Some gradients have come when backward throws.
  void quit() {
    has_quit_[step_] = true;
    device_.set(gradients_);
    sync_.begin(step_);
    for (const std::size_t t : {5U, 2U}) {
      announced_[t] = true;
      device_.announce(sync_, t);
    }
    sync_.give_up("the script says so");
    recover();
  }

  void recover() {
    std::optional<Recovered> what;
    while (!what) {
      // A rank that is gone would otherwise keep the others at it for ever.
      ensure(++account_.recoveries < kMostRecoveries,
             "[script] no end of failures");
      try {
        what = sync_.recover();
      } catch (const CommError&) {
      }
    }
    end_step(*what);
    if (on_recovery) on_recovery();
  }

  // Of a step that was rolled back the sparse part is in the residual, and the
  // dense part is the caller's again.
  void end_step(Recovered what) {
    if (what == Recovered::kNoStep) return;
    const bool committed = what == Recovered::kCommitted;
    const std::vector<float> after = device_.get();
    std::size_t j = 0;
    for (std::size_t t = 0; t < kTensors.size(); ++t) {
      const bool dense =
          kTensors[t].dims.size() < 2 || script_.job.sparsifier == "none";
      for (const float g : gradients_[t]) {
        if (announced_[t] && (committed || !dense) && std::isfinite(g)) {
          account_.brought[j] += double(g);
          account_.size[j] += std::abs(double(g));
        }
        if (committed) account_.received[j] += double(after[j]);
        ++j;
      }
    }
    if (committed) account_.committed.push_back(step_);
    if (what != Recovered::kFailed) ++step_;
  }

  Communicator& comm_;
  const Script& script_;
  std::atomic<bool>& over_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<DeviceLink> link_;
  DeviceGradients device_;
  GradientSync sync_;
  Plan plan_;
  Account account_;
  std::uint64_t step_ = 0;
  Gradients gradients_;
  std::vector<bool> announced_;
  std::vector<bool> has_quit_;
};

// Replicas are equal, all ranks have committed the steps that they must, and
// nothing is lost.
inline void expect_accounts(const Script& script,
                            const std::vector<Account>& ranks) {
  std::vector<std::uint64_t> good;
  for (std::uint64_t s = 0; s < script.steps.size(); ++s) {
    if (!script.steps[s].bad_rank) good.push_back(s);
  }
  for (const Account& rank : ranks) ASSERT_EQ(rank.committed, good);
  for (std::size_t j = 0; j < total_size(); ++j) {
    double owed = 0;
    double size = 0;
    double have = double(ranks.size()) * ranks[0].received[j];
    for (const Account& rank : ranks) {
      ASSERT_EQ(rank.received[j], ranks[0].received[j]) << "index " << j;
      owed += rank.brought[j];
      size += rank.size[j];
      have += double(rank.residual[j]);
    }
    ASSERT_NEAR(have, owed, 1e-5 + 2e-6 * size) << "index " << j;
  }
}

}  // namespace sluice::testing
