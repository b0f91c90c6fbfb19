#pragma once

#include "sluice/plan/planner.h"

// Planners that need no costs; see make_plan().

namespace sluice {

class Layerwise final : public Planner {
 public:
  static constexpr std::string_view kName = "layerwise";
  static constexpr std::string_view kSummary =
      "a bucket per tensor; those that stay dense share one";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit Layerwise(const Params&) {}
  std::string_view name() const override { return kName; }
  bool needs_costs() const override { return false; }

 private:
  Plan plan(const Job& job) const override {
    return make_plan(kName, plan_input(job));
  }
};

class SingleBucket final : public Planner {
 public:
  static constexpr std::string_view kName = "single";
  static constexpr std::string_view kSummary =
      "all tensors in one bucket; those that stay dense in another";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit SingleBucket(const Params&) {}
  std::string_view name() const override { return kName; }
  bool needs_costs() const override { return false; }

 private:
  Plan plan(const Job& job) const override {
    return make_plan(kName, plan_input(job));
  }
};

class BySize final : public Planner {
 public:
  static constexpr std::string_view kName = "size";
  static constexpr std::string_view kSummary =
      "neighbours up to so many bytes of gradient; size=25M says the same";
  struct Params {
    std::int64_t bytes = 1'000'000;
  };
  static ParamList list(Params& p) {
    return {{"bytes", &p.bytes, "of a bucket, in fp32", 1, 1e15}};
  }

  explicit BySize(const Params& params) : params_(params) {}
  std::string_view name() const override { return kName; }
  bool needs_costs() const override { return false; }

 private:
  Plan plan(const Job& job) const override {
    return make_plan(concat("size=", params_.bytes), plan_input(job));
  }

  Params params_;
};

// What live plans begin with. On a GPU all sparse tensors travel together,
// since the device and the host wait for each other once per bucket.
class FixedPlan final : public Planner {
 public:
  static constexpr std::string_view kName = "fixed";
  static constexpr std::string_view kSummary =
      "what live plans begin with: size=1M, on a GPU single; nothing is "
      "decided";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit FixedPlan(const Params&) {}
  std::string_view name() const override { return kName; }
  bool needs_costs() const override { return false; }

 private:
  Plan plan(const Job& job) const override {
    return make_plan(job.device == "cpu" ? "size=1M" : "single",
                     plan_input(job));
  }
};

}  // namespace sluice
