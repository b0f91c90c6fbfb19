#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/core/registry.h"

namespace sluice {

// What a schedule of learning rates must know of the run.
struct LrContext {
  double base = 0.1;  // the rate that factors apply to
  double workers = 1;
  double steps_per_epoch = 1;
  double epochs = 1;  // of the whole run
};

// The learning rate of every step.
//
// It is base * warm-up * factor, all functions of how many steps are done, so
// a run that resumes continues exactly, and all ranks agree. Every schedule
// takes these parameters besides its own:
//
//   warmup       epochs in which the rate rises, in equal amounts per step
//   warmup_share the same as a share of the run; one of both
//   warmup_most  the share of the run that it takes at most; 1: any
//   warmup_from  where it rises from: `workers` is 1 / workers (what one
//                worker would use), `step` is one step's amount, and a number
//                is that share of the rate
//   per_worker   true: base is for one worker, the rate is base * workers
class LrSchedule {
 public:
  static constexpr std::string_view kKind = "lr_schedule";

  struct Common {
    double warmup = 0;
    double warmup_share = 0;
    double warmup_most = 1;
    std::string warmup_from = "workers";
    bool per_worker = false;
  };
  static ParamList list_common(Common& common);

  virtual ~LrSchedule() = default;

  // The rate for the step after `steps` steps.
  double rate(std::uint64_t steps) const;

  // Tells how an evaluation came out, smaller being better (a loss); all ranks
  // must tell the same. Of interest to `plateau` only.
  virtual void observe(double) {}

  // What `observe` left behind, for checkpoints; empty if nothing.
  virtual std::vector<double> state() const { return {}; }
  // Throws std::invalid_argument unless it is from a schedule of the same kind.
  virtual void load_state(std::span<const double> state);

 protected:
  // Throws std::invalid_argument if context or common parameters make no
  // sense.
  LrSchedule(const Common& common, const LrContext& context);

  const LrContext& context() const { return context_; }
  double warmup_epochs() const { return common_.warmup; }

 private:
  double warmup_factor(double steps) const;
  // In [0, 1]; `epoch` and `steps` say the same, epoch = steps /
  // steps_per_epoch.
  virtual double factor(double epoch, double steps) const = 0;

  Common common_;
  LrContext context_;
  double warmup_start_ = 0;
  double warmup_lead_ = 0;
};

using LrScheduleEntry = RegistryEntry<LrSchedule, const LrContext&>;

// Every schedule there is.
std::span<const LrScheduleEntry> lr_schedules();

// From "name", "name:key=value,..." or a JSON object; see parse_spec.
std::unique_ptr<LrSchedule> make_lr_schedule(std::string_view text,
                                             const LrContext& context);

}  // namespace sluice
