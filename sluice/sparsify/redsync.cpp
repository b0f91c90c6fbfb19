#include "sluice/sparsify/redsync.h"

#include <algorithm>

#include "sluice/core/key.h"
#include "sluice/sparsify/statistical.h"
#include "sluice/sparsify/tail.h"
#include "sluice/sparsify/topk.h"

namespace sluice {
namespace {

// t(q) of a segment, and how many pass it.
struct Search {
  Search(const RuleCall& call, const Answer& answer)
      : tail(answer, call.facts.n), k(static_cast<double>(call.facts.k)) {
    const Moments& m = answer.moments;
    mean = m.count > 0 ? m.sum_abs / static_cast<double>(m.count) : 0;
    largest = m.max_abs;
  }
  double at(double q) const { return mean + q * (largest - mean); }
  double count(double q) const { return tail.count_above(at(q)); }

  Tail tail;
  double k;
  double mean = 0;
  double largest = 0;
};

double published_search(const Search& s) {
  double l = 0;
  double h = 1;
  double q = 0;
  while (h - l > 0.2) {
    q = (l + h) / 2;
    const double c = s.count(q);
    if (c > s.k && c < 2 * s.k) break;
    (c < s.k / 2 ? h : l) = q;
  }
  return q;
}

// Inside [1.1k, 1.8k] of the sample, so that the count over the whole tensor
// stays inside [k, 2k].
double search(const Search& s) {
  double l = 0;
  double h = 1;
  for (int round = 0; round < 20; ++round) {
    const double q = (l + h) / 2;
    const double c = s.count(q);
    if (c < 1.1 * s.k) {
      h = q;
    } else if (c > 1.8 * s.k) {
      l = q;
    } else {
      return q;
    }
  }
  return l;
}

Bracket propose(const RuleCall& call, const Answer& answer) {
  const Search s(call, answer);
  if (s.largest == 0) return nothing();
  if (s.largest <= s.mean) return exactly();
  const bool exact = params_as<Redsync::Params>(call.params).exact;
  return above(s.at(exact ? search(s) : published_search(s)));
}

Verdict judge(const RuleCall& call, const Counts& counts) {
  if (!params_as<Redsync::Params>(call.params).exact) {
    return {Verdict::kTake, counts.lo};
  }
  return within(call, counts, 1, 2);
}

Bracket propose_trimmed(const RuleCall& call, const Answer& answer) {
  const Search s(call, answer);
  if (s.largest <= s.mean) return exactly(true);
  int fifths = 4;
  // A tenth more than k in the sample: the whole tensor may hold fewer.
  while (fifths > 0 && s.count(0.2 * fifths) < 1.1 * s.k) --fifths;
  // A fifth can let a hundred times k pass; halve the way up while it does.
  double low = 0.2 * fifths;
  double high = low + 0.2;
  for (int halving = 0; halving < 10 && s.count(low) > 2 * s.k; ++halving) {
    const double q = (low + high) / 2;
    (s.count(q) < 1.1 * s.k ? high : low) = q;
  }
  // Most of those that will be taken can leave the memory at once.
  double sure = 1;
  for (int halving = 0; halving < 10; ++halving) {
    const double q = (low + sure) / 2;
    if (s.count(q) > 0.8 * s.k) break;
    sure = q;
  }
  return {above(s.at(low)).lo, above(s.at(sure)).lo, false, false};
}

Verdict judge_trimmed(const RuleCall& call, const Counts& counts) {
  if (counts.overflow || counts.lo < call.facts.k) {
    return {Verdict::kExact, call.facts.k, true};
  }
  return {Verdict::kTake, call.facts.k};
}

struct SignedStates {
  TopkState by_sign[2];
};

TopkState& signed_state(const RuleCall& call) {
  return state_as<SignedStates>(call.state).by_sign[call.facts.step % 2];
}

}  // namespace

ParamList Redsync::list(Params& p) {
  return {sample_param(p.sample),
          {"exact", &p.exact,
           "bisect up to 20 times, then select exactly; false: the published "
           "search, which may miss k by far"}};
}

void Redsync::choose(const Shape3&, SegmentTask& task) const {
  plan_statistical(task, params_, &propose, &judge,
                   params_.exact ? 2 : static_cast<double>(task.facts.n));
}

ParamList RedsyncTrimmed::list(Params& p) { return {sample_param(p.sample)}; }

void RedsyncTrimmed::choose(const Shape3&, SegmentTask& task) const {
  plan_statistical(task, params_, &propose_trimmed, &judge_trimmed, 1);
  task.capacity = task.facts.k;
}

void RedsyncQuantized::choose(const Shape3&, SegmentTask& task) const {
  Rule rule;
  rule.ask = [](const RuleCall& call) {
    return TopkRule::ask(call, signed_state(call));
  };
  rule.propose = [](const RuleCall& call, const Answer& answer) {
    return TopkRule::propose(call, signed_state(call), answer);
  };
  rule.judge = [](const RuleCall& call, const Counts& counts) {
    return TopkRule::judge(call, counts, false);
  };
  rule.observe = [](const RuleCall& call, const Outcome& outcome) {
    TopkRule::observe(signed_state(call), outcome);
  };
  rule.sign = task.facts.step % 2 == 0 ? 1 : -1;
  task.kind = SelectKind::kThreshold;
  task.rule = rule;
  task.capacity = task.facts.k;
  task.values = ValueForm::kOne;
}

}  // namespace sluice
