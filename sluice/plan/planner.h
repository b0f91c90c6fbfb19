#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sluice/core/registry.h"
#include "sluice/plan/job.h"

namespace sluice {

// Makes a plan for a job. docs/plans.md has the rule of each.
class Planner {
 public:
  static constexpr std::string_view kKind = "planner";

  virtual ~Planner() = default;

  virtual std::string_view name() const = 0;
  // Else the plan depends on the job's tensors alone: of its profile only names
  // and elements need to be known, and nothing of its network.
  virtual bool needs_costs() const { return true; }
  // The name of the plan is the planner's. It is hierarchical if the job asks
  // for that; some planners make such plans of their own accord. Throws
  // std::invalid_argument for a job that check_job() refuses.
  Plan make(const Job& job) const;

 private:
  virtual Plan plan(const Job& job) const = 0;
};

using PlannerEntry = RegistryEntry<Planner>;

// Every planner there is.
std::span<const PlannerEntry> planners();

// From "name", "name:key=value,..." or a JSON object, see parse_spec; or
// "size=BYTES", as make_plan() takes it.
std::unique_ptr<Planner> make_planner(std::string_view text);

}  // namespace sluice
