#include "sluice/plan/merge.h"

#include <algorithm>
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
  }

  std::size_t size() const { return elements_.size(); }
  double elements(std::size_t i) const { return elements_[i]; }
  double backward(std::size_t i) const { return backward_[i]; }
  double ready(std::size_t i) { return reach(i), ready_[i]; }
  double start(std::size_t i) { return reach(i), start_[i]; }
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
    known_ = std::min(known_, i);
  }

 private:
  // Computes the times up to gradient `last`. A merge changes only times that
  // come after it, and rules go from front to back: no time is computed often.
  void reach(std::size_t last) {
    for (; known_ <= last; ++known_) {
      const std::size_t i = known_;
      const double computed = i == 0 ? 0 : ready_[i - 1] + costs_[i - 1].select;
      const double sent = i == 0 ? 0 : start_[i - 1] + costs_[i - 1].exchange;
      ready_[i] = computed + backward_[i];
      start_[i] = std::max(sent, ready_[i] + costs_[i].select);
    }
  }

  const GroupCosts& cost_;
  std::vector<double> elements_;
  std::vector<double> backward_;
  std::vector<GroupCost> costs_;
  std::vector<double> ready_;  // the gradient
  std::vector<double> start_;  // of its exchange
  std::size_t known_ = 0;      // so many of both are computed
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
