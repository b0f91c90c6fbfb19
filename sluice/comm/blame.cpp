#include "sluice/comm/blame.h"

#include <algorithm>

namespace sluice {

bool has_complained(const std::vector<Complaint>& all, std::size_t rank) {
  return std::ranges::any_of(
      all, [&](const Complaint& c) { return c.from == rank; });
}

Blame judge_complaints(const std::vector<Complaint>& all, std::size_t ranks) {
  const Complaint* silent = nullptr;
  const Complaint* paused = nullptr;
  for (const Complaint& c : all) {
    if (c.about >= ranks) continue;
    const auto take = [&](const Complaint*& place) {
      if (place == nullptr || c.waited_ms > place->waited_ms) place = &c;
    };
    if (!has_complained(all, c.about)) take(silent);
    if (c.about == c.from) take(paused);
  }
  if (silent != nullptr) return {silent->about, false};
  if (paused != nullptr) return {paused->about, true};
  // Of those that are missed and complain, the last to come has waited least.
  const Complaint* last = nullptr;
  for (const Complaint& c : all) {
    const bool missed = std::ranges::any_of(
        all, [&](const Complaint& other) { return other.about == c.from; });
    if (!missed) continue;
    if (last == nullptr || c.waited_ms < last->waited_ms) last = &c;
  }
  if (last != nullptr) return {last->from, true};
  // Nobody can tell whom it misses: then one of those that say nothing.
  for (std::size_t r = ranks; r-- > 0;) {
    if (!has_complained(all, r)) return {r, false};
  }
  return {all.front().from, true};
}

}  // namespace sluice
