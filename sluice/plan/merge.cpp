#include "sluice/plan/merge.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace sluice {
namespace {

// The model of OMGS and MG-WFBP, by gradients in the order of backward; a
// gradient that was merged into the next one has nothing left.
class MergedModel {
 public:
  MergedModel(const Chain& chain, const GroupCosts& cost)
      : cost_(cost),
        elements_(chain.elements),
        backward_(chain.backward),
        ready_(chain.elements.size()),
        start_(chain.elements.size()) {
    for (const double elements : elements_)
      costs_.push_back(this->cost(elements));
    refresh(0);
  }

  std::size_t size() const { return elements_.size(); }
  double elements(std::size_t i) const { return elements_[i]; }
  double backward(std::size_t i) const { return backward_[i]; }
  double ready(std::size_t i) const { return ready_[i]; }
  double start(std::size_t i) const { return start_[i]; }
  const GroupCost& at(std::size_t i) const { return costs_[i]; }
  GroupCost cost(double elements) const {
    return elements > 0 ? cost_(elements) : GroupCost{};
  }

  void merge_into_next(std::size_t i) {
    elements_[i + 1] += elements_[i];
    backward_[i + 1] += backward_[i];
    elements_[i] = backward_[i] = 0;
    costs_[i] = {};
    costs_[i + 1] = cost(elements_[i + 1]);
    refresh(i);
  }

 private:
  void refresh(std::size_t from) {
    const bool first = from == 0;
    double computed = first ? 0 : ready_[from - 1] + costs_[from - 1].select;
    double sent = first ? 0 : start_[from - 1] + costs_[from - 1].exchange;
    for (std::size_t i = from; i < size(); ++i) {
      ready_[i] = computed + backward_[i];
      computed = ready_[i] + costs_[i].select;
      start_[i] = std::max(sent, computed);
      sent = start_[i] + costs_[i].exchange;
    }
  }

  const GroupCosts& cost_;
  std::vector<double> elements_;
  std::vector<double> backward_;
  std::vector<GroupCost> costs_;
  std::vector<double> ready_;  // the gradient
  std::vector<double> start_;  // of its exchange
};

// `ends[i]`: gradient i is the last of its group.
Groups groups_of(const std::vector<bool>& ends) {
  Groups groups;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!ends[i] && i + 1 < ends.size()) continue;
    groups.push_back({begin, i + 1, 0});
    begin = i + 1;
  }
  return groups;
}

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
  ExactMerge(const Chain& chain, std::span<const GroupCosts> ways, bool beside)
      : chain_(chain), ways_(ways), beside_(beside) {
    made_.assign(1, 0);
    for (const double seconds : chain.backward) {
      made_.push_back(made_.back() + seconds);
    }
    price();
  }

  // What a few states each reach is nearly the best, and soon found; with it,
  // nearly all others need not be followed.
  Groups solve() {
    constexpr std::size_t kFew = 4;
    find_limit();
    search(kFew);
    if (!fronts_.back().empty()) {
      const double good = end_of(chain_, trace_back(), ways_, beside_);
      limit_ = std::min(limit_, kSlack * good);
    }
    search(size() * size());
    return trace_back();
  }

 private:
  // What is exactly as good must survive its own rounding.
  static constexpr double kSlack = 1 + 1e-9;

  std::size_t size() const { return chain_.elements.size(); }
  GroupCost& cost(std::size_t way, std::size_t begin, std::size_t end) {
    return costs_[(way * size() + begin) * (size() + 1) + end];
  }

  // Every group there can be, and what the link needs at least for the rest.
  void price() {
    costs_.resize(ways_.size() * size() * (size() + 1));
    rest_.assign(size() + 1, std::numeric_limits<double>::infinity());
    rest_.back() = chain_.last;
    for (std::size_t begin = size(); begin-- > 0;) {
      double elements = 0;
      for (std::size_t end = begin + 1; end <= size(); ++end) {
        elements += chain_.elements[end - 1];
        for (std::size_t way = 0; way < ways_.size(); ++way) {
          const GroupCost price = ways_[way](elements);
          cost(way, begin, end) = price;
          rest_[begin] = std::min(rest_[begin], price.exchange + rest_[end]);
        }
      }
    }
  }

  // What simple rules reach: states that cannot be better are not followed.
  void find_limit() {
    limit_ = std::numeric_limits<double>::infinity();
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      for (Groups groups : {each_alone(chain_), all_together(chain_),
                            merge_omgs(chain_, ways_[way])}) {
        for (Group& g : groups) g.way = way;
        limit_ = std::min(limit_, end_of(chain_, groups, ways_, beside_));
      }
    }
    limit_ *= kSlack;
  }

  void search(std::size_t width) {
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
      const GroupCost& group = cost(way, begin, end);
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

  const Chain& chain_;
  std::span<const GroupCosts> ways_;
  bool beside_;
  double limit_ = 0;
  std::vector<double> made_;  // seconds of backward for so many gradients
  std::vector<double> rest_;  // seconds of the link behind so many, at least
  std::vector<GroupCost> costs_;
  std::vector<std::vector<State>> fronts_;
};

}  // namespace

Groups each_alone(const Chain& chain) {
  return groups_of(std::vector<bool>(chain.elements.size(), true));
}

Groups all_together(const Chain& chain) {
  return groups_of(std::vector<bool>(chain.elements.size(), false));
}

Groups merge_omgs(const Chain& chain, const GroupCosts& cost) {
  MergedModel model(chain, cost);
  std::vector<bool> ends(model.size(), false);
  for (std::size_t i = 1; i + 1 < model.size(); ++i) {
    const GroupCost here = model.at(i);
    const GroupCost next = model.at(i + 1);
    const GroupCost both =
        model.cost(model.elements(i) + model.elements(i + 1));
    const double wait = model.backward(i + 1) + both.select - here.select -
                        next.select -
                        (model.start(i) - (model.ready(i) + here.select));
    const double saved = here.exchange + next.exchange - both.exchange;
    if (wait < saved) {
      model.merge_into_next(i);
    } else {
      ends[i] = true;
    }
  }
  return groups_of(ends);
}

Groups merge_mgwfbp(const Chain& chain, const GroupCosts& cost, double alpha) {
  const GroupCosts unselected = [&](double elements) {
    return GroupCost{0, cost(elements).exchange};
  };
  MergedModel model(chain, unselected);
  std::vector<bool> ends(model.size(), false);
  for (std::size_t i = 0; i + 1 < model.size(); ++i) {
    const double next = model.ready(i + 1);
    const double start = model.start(i);
    const bool merge =
        next < start + model.at(i).exchange && next - start < alpha;
    if (merge) {
      model.merge_into_next(i);
    } else {
      ends[i] = true;
    }
  }
  return groups_of(ends);
}

Groups merge_exactly(const Chain& chain, std::span<const GroupCosts> ways,
                     bool select_beside) {
  if (chain.elements.empty()) return {};
  return ExactMerge(chain, ways, select_beside).solve();
}

double end_of(const Chain& chain, const Groups& groups,
              std::span<const GroupCosts> ways, bool select_beside) {
  std::vector<double> backward = chain.backward;
  backward.push_back(chain.tail);
  std::vector<BucketWork> work;
  for (const Group& g : groups) {
    const GroupCost cost = ways[g.way](std::accumulate(
        chain.elements.begin() + static_cast<long>(g.begin),
        chain.elements.begin() + static_cast<long>(g.end), 0.0));
    work.push_back({g.end, cost.select, cost.exchange, 0});
  }
  work.push_back({backward.size(), 0, chain.last, 0});
  return run_timeline(0, backward, work, {select_beside, false}).end;
}

}  // namespace sluice
