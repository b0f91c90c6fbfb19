#pragma once

#include <type_traits>

#include "sluice/sparsify/adtopk.h"
#include "sluice/sparsify/dgc.h"
#include "sluice/sparsify/gaussiank.h"
#include "sluice/sparsify/randomk.h"
#include "sluice/sparsify/redsync.h"
#include "sluice/sparsify/sidco.h"
#include "sluice/sparsify/threshold.h"
#include "sluice/sparsify/topk.h"

// Every sparsifier, and by it every rule.
//
// A rule is a struct of four static SLUICE_HD functions and kRounds, the
// brackets it may propose in a step. make_rule gives a backend its functions
// for the host and its id; by_id calls the functions on either side.

namespace sluice {

template <class... S>
struct SparsifierList {};

using AllSparsifiers =
    SparsifierList<Topk, Adtopk, AdtopkInterleaved, AdtopkThreshold, Tile,
                   Randomk, Threshold, Dgc, Gaussiank, Redsync, RedsyncTrimmed,
                   RedsyncQuantized, SidcoE, SidcoGp, SidcoP, None>;

// The place of the first sparsifier with this rule.
template <class R, class... S>
constexpr RuleId find_rule(SparsifierList<S...>) {
  std::uint32_t id = 0;
  const bool found =
      ((std::is_same_v<R, typename S::RuleType> || (++id, false)) || ...);
  return found ? RuleId{id} : RuleId::kCustom;
}

template <class R>
inline constexpr RuleId kRuleId = find_rule<R>(AllSparsifiers{});

template <class R>
Rule make_rule() {
  static_assert(kRuleId<R> != RuleId::kCustom, "no sparsifier names this rule");
  static_assert(R::kRounds <= kMaxRounds);
  Rule rule;
  rule.id = kRuleId<R>;
  rule.rounds = R::kRounds;
  rule.ask = &R::ask;
  rule.propose = &R::propose;
  rule.judge = &R::judge;
  rule.observe = &R::observe;
  return rule;
}

template <class R, class Params>
Rule make_rule(const Params& params) {
  Rule rule = make_rule<R>();
  rule.params = pack_params(params);
  return rule;
}

// Calls f with the rule of this id; false if there is none.
template <class F, class... S>
SLUICE_HD bool with_rule(RuleId id, F&& f, SparsifierList<S...>) {
  return ((id == kRuleId<typename S::RuleType> &&
           (f(typename S::RuleType{}), true)) ||
          ...);
}

// The functions of a rule by its id, which must not be kCustom.
namespace by_id {

SLUICE_HD inline Query ask(RuleId id, const RuleCall& call) {
  Query out;
  with_rule(
      id, [&](auto rule) { out = rule.ask(call); }, AllSparsifiers{});
  return out;
}

SLUICE_HD inline Bracket propose(RuleId id, const RuleCall& call,
                                 const Answer& answer) {
  Bracket out;
  with_rule(
      id, [&](auto rule) { out = rule.propose(call, answer); },
      AllSparsifiers{});
  return out;
}

SLUICE_HD inline Verdict judge(RuleId id, const RuleCall& call,
                               const Counts& counts) {
  Verdict out;
  with_rule(
      id, [&](auto rule) { out = rule.judge(call, counts); }, AllSparsifiers{});
  return out;
}

SLUICE_HD inline void observe(RuleId id, const RuleCall& call,
                              const Outcome& outcome) {
  with_rule(
      id, [&](auto rule) { rule.observe(call, outcome); }, AllSparsifiers{});
}

}  // namespace by_id

}  // namespace sluice
