#pragma once

#include "sluice/sparsify/statistical.h"
#include "sluice/sparsify/tail.h"
#include "sluice/sparsify/topk.h"

namespace sluice {

struct RedsyncParams {
  std::int64_t sample = 1 << 17;
  bool exact = true;
};

struct RedsyncTrimmedParams {
  std::int64_t sample = 1 << 17;
};

// t(q) of a segment, and how many pass it.
struct RedsyncSearch {
  SLUICE_HD RedsyncSearch(const RuleCall& call, const Answer& answer)
      : tail(answer, call.facts.n), k(static_cast<double>(call.facts.k)) {
    const Moments& m = answer.moments;
    mean = m.count > 0 ? m.sum_abs / static_cast<double>(m.count) : 0;
    largest = m.max_abs;
  }
  SLUICE_HD double at(double q) const { return mean + q * (largest - mean); }
  SLUICE_HD double count(double q) const { return tail.count_above(at(q)); }

  Tail tail;
  double k;
  double mean = 0;
  double largest = 0;
};

// One round.
struct RedsyncRule : HistogramRule<RedsyncParams> {
  SLUICE_HD static Bracket propose(const RuleCall& call, const Answer& answer) {
    const RedsyncSearch s(call, answer);
    if (s.largest == 0) return nothing();
    if (s.largest <= s.mean) return exactly();
    const bool exact = params_as<RedsyncParams>(call.params).exact;
    return above(s.at(exact ? search(s) : published_search(s)));
  }

  SLUICE_HD static Verdict judge(const RuleCall& call, const Counts& counts) {
    if (!params_as<RedsyncParams>(call.params).exact) {
      return {Verdict::kTake, counts.lo};
    }
    return within(call, counts, 1, 2);
  }

 private:
  SLUICE_HD static double published_search(const RedsyncSearch& s) {
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
  SLUICE_HD static double search(const RedsyncSearch& s) {
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
};

// One round.
struct RedsyncTrimmedRule : HistogramRule<RedsyncTrimmedParams> {
  SLUICE_HD static Bracket propose(const RuleCall& call, const Answer& answer) {
    const RedsyncSearch s(call, answer);
    if (s.largest <= s.mean) return exactly();
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

  SLUICE_HD static Verdict judge(const RuleCall& call, const Counts& counts) {
    const bool enough = counts.lo >= call.facts.k || counts.all;
    return {enough && !counts.overflow ? Verdict::kTake : Verdict::kExact,
            call.facts.k};
  }
};

// Top-k with a state per sign; two rounds.
struct RedsyncQuantizedRule {
  static constexpr std::uint32_t kRounds = TopkRule::kRounds;
  SLUICE_HD static Query ask(const RuleCall& call) {
    return TopkSearch::ask(call, signed_state(call));
  }
  SLUICE_HD static Bracket propose(const RuleCall& call, const Answer& answer) {
    return TopkSearch::propose(call, signed_state(call), answer);
  }
  SLUICE_HD static Verdict judge(const RuleCall& call, const Counts& counts) {
    return TopkSearch::judge(call, counts);
  }
  SLUICE_HD static void observe(const RuleCall& call, const Outcome& outcome) {
    TopkSearch::observe(call, signed_state(call), outcome);
  }

 private:
  struct SignedStates {
    TopkState by_sign[2];
  };

  SLUICE_HD static TopkState& signed_state(const RuleCall& call) {
    return state_as<SignedStates>(call.state).by_sign[call.facts.step % 2];
  }
};

// RedSync's threshold search: t(q) = mean + q (max - mean), q bisected until k
// to 2k entries pass.
class Redsync final : public SparsifierOf<Redsync, RedsyncParams> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "redsync";
  static constexpr std::string_view kSummary =
      "threshold between mean and maximum, bisected until k to 2k pass";
  using RuleType = RedsyncRule;
  static ParamList list(Params& p);
  bool estimates() const override { return true; }

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

// RedSync's trimmed form: t(q) is lowered in fifths until enough pass, then the
// k largest of those are taken. Equals top-k.
class RedsyncTrimmed final
    : public SparsifierOf<RedsyncTrimmed, RedsyncTrimmedParams> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "redsync-trimmed";
  static constexpr std::string_view kSummary =
      "trims by mean and maximum, then takes exactly the k largest";
  using RuleType = RedsyncTrimmedRule;
  static ParamList list(Params& p);

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

// RedSync's quantised form: the k largest positive entries in even steps, the k
// most negative in odd ones, all sent as their mean.
class RedsyncQuantized final : public SparsifierOf<RedsyncQuantized> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "redsync-quantized";
  static constexpr std::string_view kSummary =
      "the k largest of one sign, sent as one mean; the sign alternates";
  using RuleType = RedsyncQuantizedRule;

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

}  // namespace sluice
