#include "sluice/config/lr_schedule.h"

#include <algorithm>
#include <charconv>

#include "sluice/core/error.h"

namespace sluice {
namespace {

double parse_start(std::string_view text, const LrContext& context) {
  if (text == "workers") return 1 / context.workers;
  if (text == "step") return 0;
  double value = -1;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size() &&
              value >= 0 && value <= 1,
          "[lr_schedule] warmup_from must be workers, step or a number in "
          "[0, 1], got '",
          text, "'");
  return value;
}

}  // namespace

ParamList LrSchedule::list_common(Common& common) {
  return {
      {"warmup", &common.warmup, "epochs of linear warm-up", 0, 1e6},
      {"warmup_share", &common.warmup_share,
       "the same as a share of the run, in place of epochs", 0, 0.999999},
      {"warmup_most", &common.warmup_most,
       "share of the run that the warm-up takes at most; 1: any", 0, 1},
      {"warmup_from", &common.warmup_from,
       "its start: workers (1 / workers), step (one step's amount) or a "
       "share of the rate"},
      {"per_worker", &common.per_worker,
       "whether the base rate is multiplied by the number of workers"},
  };
}

LrSchedule::LrSchedule(const Common& common, const LrContext& context)
    : common_(common), context_(context) {
  require(context.base >= 0 && context.workers >= 1 &&
              context.steps_per_epoch > 0 && context.epochs > 0,
          "[lr_schedule] there must be a rate of at least 0, a worker, a step "
          "per epoch and an epoch, got ",
          context.base, ", ", context.workers, ", ", context.steps_per_epoch,
          " and ", context.epochs);
  require(common.warmup == 0 || common.warmup_share == 0,
          "[lr_schedule] warmup and warmup_share must not both be given, got ",
          common.warmup, " epochs and a share of ", common.warmup_share,
          "; warmup=2 is 2 epochs, warmup_share=0.1 a tenth of the run");
  if (common.warmup_share > 0) {
    common_.warmup = common.warmup_share * context.epochs;
  }
  if (common.warmup_most < 1) {
    common_.warmup =
        std::min(common_.warmup, common.warmup_most * context.epochs);
  }
  warmup_start_ = parse_start(common.warmup_from, context);
  // The published code that starts from one step's amount counts the step it is
  // about to do; the one that starts from 1 / workers does not.
  warmup_lead_ = common.warmup_from == "step" ? 1 : 0;
}

double LrSchedule::rate(std::uint64_t steps) const {
  const auto done = static_cast<double>(steps);
  const double scale = common_.per_worker ? context_.workers : 1;
  return context_.base * scale * warmup_factor(done) *
         factor(done / context_.steps_per_epoch, done);
}

void LrSchedule::load_state(std::span<const double> state) {
  require(state.empty(), "[lr_schedule] this schedule keeps no state, got ",
          state.size(), " numbers; was the checkpoint of another schedule?");
}

double LrSchedule::warmup_factor(double steps) const {
  const double length = common_.warmup * context_.steps_per_epoch;
  if (steps >= length) return 1;
  return warmup_start_ + (1 - warmup_start_) * (steps + warmup_lead_) / length;
}

}  // namespace sluice
