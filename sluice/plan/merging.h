#pragma once

#include "sluice/plan/planner.h"

// Planners that choose which neighbours to merge; see plan/merge.h.

namespace sluice {

class MgWfbp final : public Planner {
 public:
  static constexpr std::string_view kName = "mgwfbp";
  static constexpr std::string_view kSummary =
      "all dense; neighbours merge while the link is busy (MG-WFBP)";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit MgWfbp(const Params&) {}
  std::string_view name() const override { return kName; }

 private:
  Plan plan(const Job& job) const override;
};

class Omgs final : public Planner {
 public:
  static constexpr std::string_view kName = "omgs";
  static constexpr std::string_view kSummary =
      "neighbours merge where waiting costs less than a message (OMGS-SGD)";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit Omgs(const Params&) {}
  std::string_view name() const override { return kName; }

 private:
  Plan plan(const Job& job) const override;
};

class OmgsExact final : public Planner {
 public:
  static constexpr std::string_view kName = "omgs-exact";
  static constexpr std::string_view kSummary =
      "the merges that end first, by a dynamic program: OMGS without its error";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  explicit OmgsExact(const Params&) {}
  std::string_view name() const override { return kName; }

 private:
  Plan plan(const Job& job) const override;
};

}  // namespace sluice
