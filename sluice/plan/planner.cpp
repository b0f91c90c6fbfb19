#include "sluice/plan/planner.h"

#include <array>

#include "sluice/plan/auto_planner.h"
#include "sluice/plan/composed.h"
#include "sluice/plan/hierarchical.h"
#include "sluice/plan/lags.h"
#include "sluice/plan/merging.h"
#include "sluice/plan/partial.h"
#include "sluice/plan/selective.h"
#include "sluice/plan/simple.h"

namespace sluice {
namespace {

constexpr std::array kPlanners = {
    registry_entry<Layerwise, Planner>(),
    registry_entry<SingleBucket, Planner>(),
    registry_entry<BySize, Planner>(),
    registry_entry<FixedPlan, Planner>(),
    registry_entry<MgWfbp, Planner>(),
    registry_entry<Omgs, Planner>(),
    registry_entry<OmgsExact, Planner>(),
    registry_entry<Lags, Planner>(),
    registry_entry<AdtopkPartial, Planner>(),
    registry_entry<Hipress, Planner>(),
    registry_entry<Espresso, Planner>(),
    registry_entry<Hybrid, Planner>(),
    registry_entry<Interleaved, Planner>(),
    registry_entry<HierarchicalPlanner, Planner>(),
    registry_entry<AutoPlanner, Planner>(),
};

}  // namespace

Plan Planner::make(const Job& job) const {
  check_job(job);
  Plan made = plan(job);
  made.name = name();
  made.hierarchical |= job.hierarchical;
  check_plan(made, job.profile.names());
  return made;
}

std::span<const PlannerEntry> planners() { return kPlanners; }

std::unique_ptr<Planner> make_planner(std::string_view text) {
  constexpr std::string_view kSize = "size=";
  if (text.starts_with(kSize)) {
    BySize::Params params;
    params.bytes = parse_plan_bytes(text);
    return std::make_unique<BySize>(params);
  }
  return make_from(planners(), Planner::kKind, text);
}

}  // namespace sluice
