#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "sluice/config/lr_schedule.h"
#include "sluice/config/number_list.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

// A schedule's own parameters, then those that all have.
ParamList with_common(ParamList own, LrSchedule::Common& common) {
  for (Param& param : LrSchedule::list_common(common)) {
    own.push_back(std::move(param));
  }
  return own;
}

class Constant final : public LrSchedule {
 public:
  static constexpr std::string_view kName = "constant";
  static constexpr std::string_view kSummary = "the base rate throughout";
  struct Params : Common {};
  static ParamList list(Params& p) { return with_common({}, p); }

  Constant(const Params& params, const LrContext& context)
      : LrSchedule(params, context) {}

 private:
  double factor(double, double) const override { return 1; }
};

class Steps final : public LrSchedule {
 public:
  static constexpr std::string_view kName = "steps";
  static constexpr std::string_view kSummary = "times a factor at given epochs";
  struct Params : Common {
    std::string at = "30-60-80";
    double factor = 0.1;
    std::string factors;
  };
  static ParamList list(Params& p) {
    return with_common({{"at", &p.at, "epochs, ascending, joined by '-'"},
                        {"factor", &p.factor, "at each of them", 0, 1},
                        {"factors", &p.factors,
                         "in its place: the share of the rate from each of "
                         "them on, joined by '-'"}},
                       p);
  }

  Steps(const Params& params, const LrContext& context)
      : LrSchedule(params, context),
        factor_(params.factor),
        at_(parse_number_list("[lr_schedule 'steps'] parameter 'at'",
                              params.at)),
        factors_(parse_number_list("[lr_schedule 'steps'] parameter 'factors'",
                                   params.factors)) {
    require(std::is_sorted(at_.begin(), at_.end()),
            "[lr_schedule 'steps'] parameter 'at' must be ascending, got '",
            params.at, "'");
    const bool fit = std::all_of(factors_.begin(), factors_.end(),
                                 [](double f) { return f <= 1; });
    require(factors_.empty() || (fit && factors_.size() == at_.size()),
            "[lr_schedule 'steps'] parameter 'factors' must be ", at_.size(),
            " shares in [0, 1], one for each of '", params.at, "', got '",
            params.factors, "'");
  }

 private:
  double factor(double epoch, double) const override {
    const auto passed =
        std::upper_bound(at_.begin(), at_.end(), epoch) - at_.begin();
    if (passed > 0 && !factors_.empty()) {
      return factors_[static_cast<std::size_t>(passed - 1)];
    }
    return std::pow(factor_, static_cast<double>(passed));
  }

  double factor_;
  std::vector<double> at_;
  std::vector<double> factors_;
};

class Exponential final : public LrSchedule {
 public:
  static constexpr std::string_view kName = "exponential";
  static constexpr std::string_view kSummary = "times a factor every epoch";
  struct Params : Common {
    double factor = 0.99;
  };
  static ParamList list(Params& p) {
    return with_common({{"factor", &p.factor, "of each epoch", 0, 1}}, p);
  }

  Exponential(const Params& params, const LrContext& context)
      : LrSchedule(params, context), factor_(params.factor) {}

 private:
  double factor(double epoch, double) const override {
    return std::pow(factor_, std::floor(epoch));
  }

  double factor_;
};

class Linear final : public LrSchedule {
 public:
  static constexpr std::string_view kName = "linear";
  static constexpr std::string_view kSummary =
      "straight down from the end of the warm-up to the end of the run";
  struct Params : Common {
    double to = 0;
  };
  static ParamList list(Params& p) {
    return with_common({{"to", &p.to, "share of the rate at the end", 0, 1}},
                       p);
  }

  Linear(const Params& params, const LrContext& context)
      : LrSchedule(params, context), to_(params.to), epochs_(context.epochs) {
    require(
        epochs_ > warmup_epochs(),
        "[lr_schedule 'linear'] the run must be longer than its warm-up of ",
        warmup_epochs(), " epochs, got ", epochs_);
  }

 private:
  double factor(double epoch, double) const override {
    const double done = std::clamp(
        (epoch - warmup_epochs()) / (epochs_ - warmup_epochs()), 0.0, 1.0);
    return 1 - (1 - to_) * done;
  }

  double to_;
  double epochs_;
};

class Cosine final : public LrSchedule {
 public:
  static constexpr std::string_view kName = "cosine";
  static constexpr std::string_view kSummary =
      "half a cosine from the end of the warm-up to the end of the run";
  struct Params : Common {
    double to = 0;
    double epochs = 0;
  };
  static ParamList list(Params& p) {
    return with_common(
        {{"to", &p.to, "share of the rate at the end", 0, 1},
         {"epochs", &p.epochs, "where it ends; 0 for the whole run", 0, 1e6}},
        p);
  }

  Cosine(const Params& params, const LrContext& context)
      : LrSchedule(params, context),
        to_(params.to),
        epochs_(params.epochs > 0 ? params.epochs : context.epochs) {
    require(
        epochs_ > warmup_epochs(),
        "[lr_schedule 'cosine'] the run must be longer than its warm-up of ",
        warmup_epochs(), " epochs, got ", epochs_);
  }

 private:
  double factor(double epoch, double) const override {
    const double done = std::clamp(
        (epoch - warmup_epochs()) / (epochs_ - warmup_epochs()), 0.0, 1.0);
    return to_ + (1 - to_) * (1 + std::cos(std::numbers::pi * done)) / 2;
  }

  double to_;
  double epochs_;
};

class InverseSqrt final : public LrSchedule {
 public:
  static constexpr std::string_view kName = "inverse-sqrt";
  static constexpr std::string_view kSummary =
      "Noam's sqrt(W) min(1 / sqrt(s), s / W^1.5) in step s = 1, 2, ...: up to "
      "the base rate in W steps, then down";
  struct Params : Common {
    double rise = 100;
  };
  static ParamList list(Params& p) {
    return with_common({{"rise", &p.rise, "W, in steps", 1, 1e9}}, p);
  }

  InverseSqrt(const Params& params, const LrContext& context)
      : LrSchedule(params, context), rise_(params.rise) {}

 private:
  double factor(double, double steps) const override {
    const double s = steps + 1;
    return std::min(std::sqrt(rise_ / s), s / rise_);
  }

  double rise_;
};

class Plateau final : public LrSchedule {
 public:
  static constexpr std::string_view kName = "plateau";
  static constexpr std::string_view kSummary =
      "times a factor when evaluations stop getting better";
  struct Params : Common {
    double factor = 0.5;
    std::int64_t patience = 3;
    double least = 0;
  };
  static ParamList list(Params& p) {
    return with_common(
        {{"factor", &p.factor, "of each reduction", 0, 1},
         {"patience", &p.patience, "bad evaluations that are borne", 0, 1e6},
         {"least", &p.least, "share of the rate to stop at", 0, 1}},
        p);
  }

  Plateau(const Params& params, const LrContext& context)
      : LrSchedule(params, context), params_(params) {}

  // A result that is not a number is a bad one.
  void observe(double result) override {
    if (result < best_) {
      best_ = result;
      bad_ = 0;
    } else if (++bad_ > static_cast<double>(params_.patience)) {
      now_ = std::max(now_ * params_.factor, params_.least);
      bad_ = 0;
    }
  }

  std::vector<double> state() const override { return {now_, best_, bad_}; }
  void load_state(std::span<const double> state) override {
    require(state.size() == 3, "[lr_schedule 'plateau'] a state must have 3 ",
            "numbers, got ", state.size(),
            "; was the checkpoint of another schedule?");
    now_ = state[0];
    best_ = state[1];
    bad_ = state[2];
  }

 private:
  double factor(double, double) const override { return now_; }

  Params params_;
  double now_ = 1;
  // Not infinity, which JSON could not hold.
  double best_ = std::numeric_limits<double>::max();
  double bad_ = 0;
};

constexpr std::array kSchedules = {
    registry_entry<Constant, LrSchedule, const LrContext&>(),
    registry_entry<Steps, LrSchedule, const LrContext&>(),
    registry_entry<Exponential, LrSchedule, const LrContext&>(),
    registry_entry<Linear, LrSchedule, const LrContext&>(),
    registry_entry<Cosine, LrSchedule, const LrContext&>(),
    registry_entry<InverseSqrt, LrSchedule, const LrContext&>(),
    registry_entry<Plateau, LrSchedule, const LrContext&>(),
};

}  // namespace

std::span<const LrScheduleEntry> lr_schedules() { return kSchedules; }

std::unique_ptr<LrSchedule> make_lr_schedule(std::string_view text,
                                             const LrContext& context) {
  return make_from(lr_schedules(), LrSchedule::kKind, text, context);
}

}  // namespace sluice
