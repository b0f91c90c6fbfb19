#include "sluice/plan/merge_exact.h"

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

// How far computing and sending have come behind gradient `end`, and from where
// that was reached.
struct State {
  double computed = 0;
  double sent = 0;
  std::size_t begin = 0;  // of the last group
  std::size_t way = 0;
  std::size_t from = 0;  // index in the front of `begin`
};

// Of states by rising `computed` those that have sent more than all before.
void keep_front(std::vector<State>& states) {
  std::sort(states.begin(), states.end(), [](const State& a, const State& b) {
    return a.computed < b.computed ||
           (a.computed == b.computed && a.sent < b.sent);
  });
  double least = std::numeric_limits<double>::infinity();
  std::erase_if(states, [&](const State& s) {
    if (s.sent >= least) return true;
    least = s.sent;
    return false;
  });
}

class ExactMerge {
 public:
  ExactMerge(const PricedChain& priced, std::size_t count, bool beside)
      : priced_(priced),
        chain_(priced.chain()),
        ways_(priced.ways().first(count)),
        beside_(beside),
        made_(1, 0) {
    for (const double seconds : chain_.backward) {
      made_.push_back(made_.back() + seconds);
    }
    find_rest();
  }

  // What a few states each reach is nearly the best, and soon found; with it,
  // nearly all others need not be followed. Where backward hides so much that
  // they must be, there is no end of them: then only as many as there is time
  // for.
  Groups solve() {
    constexpr std::size_t kFew = 4;
    try_simple_rules();
    for (const std::size_t width : {kFew, affordable()}) {
      search(width);
      if (!fronts_.back().empty()) show(trace_back());
    }
    return best_;
  }

 private:
  // What is exactly as good must survive its own rounding.
  static constexpr double kSlack = 1 + 1e-9;

  std::size_t size() const { return chain_.elements.size(); }

  // States to follow behind each gradient: with two ways 500 of 100 gradients,
  // 31 of 400, for which auto took 30 to 120 ms on a core of an EPYC (dev
  // preset, 2026-11-18), and found what took up to 40 s, or all of the memory,
  // without a limit.
  std::size_t affordable() const {
    constexpr std::size_t kSteps = 10'000'000;
    return std::max<std::size_t>(16, kSteps / (size() * size() * ways_.size()));
  }

  void show(Groups groups) {
    const double end = end_of(chain_, groups, ways_, beside_);
    if (end >= least_) return;
    least_ = end;
    best_ = std::move(groups);
  }

  // What the link needs at least behind every gradient.
  void find_rest() {
    rest_.assign(size() + 1, std::numeric_limits<double>::infinity());
    rest_.back() = chain_.last;
    for (std::size_t begin = size(); begin-- > 0;) {
      for (std::size_t way = 0; way < ways_.size(); ++way) {
        for (std::size_t end = begin + 1; end <= size(); ++end) {
          const double exchange = priced_.at(way, begin, end).exchange;
          rest_[begin] = std::min(rest_[begin], exchange + rest_[end]);
        }
      }
    }
  }

  void try_simple_rules() {
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      for (Groups groups : {each_alone(chain_), all_together(chain_),
                            merge_omgs(chain_, ways_[way])}) {
        for (Group& g : groups) g.way = way;
        show(std::move(groups));
      }
    }
  }

  // States that cannot be better than what is known are not followed.
  void search(std::size_t width) {
    limit_ = kSlack * least_;
    fronts_.assign(size() + 1, {});
    fronts_[0].push_back({});
    for (std::size_t end = 1; end <= size(); ++end) {
      std::vector<State>& front = fronts_[end];
      for (std::size_t begin = 0; begin < end; ++begin) extend(begin, end);
      keep_front(front);
      if (front.size() <= width) continue;
      std::nth_element(front.begin(), front.begin() + static_cast<long>(width),
                       front.end(), [&](const State& a, const State& b) {
                         return end_at_least(a, end) < end_at_least(b, end);
                       });
      front.resize(width);
      keep_front(front);
    }
  }

  double end_at_least(const State& s, std::size_t end) const {
    const double rest = made_.back() - made_[end] + chain_.tail;
    const double computed =
        beside_ ? made_.back() + chain_.tail : s.computed + rest;
    return std::max(s.sent + rest_[end], computed + chain_.last);
  }

  void extend(std::size_t begin, std::size_t end) {
    const double backward = made_[end] - made_[begin];
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      const GroupCost& group = priced_.at(way, begin, end);
      for (std::size_t f = 0; f < fronts_[begin].size(); ++f) {
        const State& from = fronts_[begin][f];
        State to = {0, 0, begin, way, f};
        to.computed = (beside_ ? std::max(from.computed, made_[end])
                               : from.computed + backward) +
                      group.select;
        to.sent = std::max(from.sent, to.computed) + group.exchange;
        if (end_at_least(to, end) <= limit_) fronts_[end].push_back(to);
        // The link is idle by then: what was computed later starts later.
        if (from.sent <= to.computed) break;
      }
    }
  }

  Groups trace_back() const {
    const std::vector<State>& last = fronts_.back();
    const auto best = std::min_element(
        last.begin(), last.end(), [&](const State& a, const State& b) {
          return end_at_least(a, size()) < end_at_least(b, size());
        });
    Groups groups;
    std::size_t end = size();
    auto at = static_cast<std::size_t>(best - last.begin());
    while (end > 0) {
      const State& s = fronts_[end][at];
      groups.push_back({s.begin, end, s.way});
      at = s.from;
      end = s.begin;
    }
    std::reverse(groups.begin(), groups.end());
    return groups;
  }

  const PricedChain& priced_;
  const Chain& chain_;
  std::span<const GroupCosts> ways_;
  bool beside_;
  Groups best_;
  double least_ = std::numeric_limits<double>::infinity();  // its end
  double limit_ = 0;
  std::vector<double> made_;  // seconds of backward for so many gradients
  std::vector<double> rest_;  // seconds of the link behind so many, at least
  std::vector<std::vector<State>> fronts_;
};

}  // namespace

PricedChain::PricedChain(const Chain& chain, std::span<const GroupCosts> ways)
    : whole_(chain), ways_(ways) {
  const std::size_t all = chain.elements.size();
  const std::size_t size = std::min(all, kMost);
  chain_.tail = chain.tail;
  chain_.last = chain.last;
  chain_.elements.assign(size, 0);
  chain_.backward.assign(size, 0);
  for (std::size_t run = 0; run < size; ++run) {
    starts_.push_back(run * all / size);
    for (std::size_t i = starts_[run]; i < (run + 1) * all / size; ++i) {
      chain_.elements[run] += chain.elements[i];
      chain_.backward[run] += chain.backward[i];
    }
  }
  starts_.push_back(all);
  prices_.resize(ways.size() * size * (size + 1));
  for (std::size_t begin = 0; begin < size; ++begin) {
    double elements = 0;
    for (std::size_t end = begin + 1; end <= size; ++end) {
      elements += chain_.elements[end - 1];
      for (std::size_t way = 0; way < ways.size(); ++way) {
        prices_[index(way, begin, end)] = ways[way](elements);
      }
    }
  }
}

Groups PricedChain::expand(Groups groups) const {
  for (Group& g : groups) g = {starts_[g.begin], starts_[g.end], g.way};
  return groups;
}

Groups merge_exactly(const PricedChain& priced, std::size_t count,
                     bool select_beside) {
  const Chain& whole = priced.whole();
  if (whole.elements.empty()) return {};
  Groups best = priced.expand(ExactMerge(priced, count, select_beside).solve());
  if (whole.elements.size() <= PricedChain::kMost) return best;
  const auto ways = priced.ways().first(count);
  for (std::size_t way = 0; way < count; ++way) {
    for (Groups groups : {each_alone(whole), all_together(whole)}) {
      for (Group& g : groups) g.way = way;
      if (end_of(whole, groups, ways, select_beside) <
          end_of(whole, best, ways, select_beside)) {
        best = std::move(groups);
      }
    }
  }
  return best;
}

Groups merge_exactly(const Chain& chain, std::span<const GroupCosts> ways,
                     bool select_beside) {
  return merge_exactly(PricedChain(chain, ways), ways.size(), select_beside);
}

}  // namespace sluice
