#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

// Some rank has waited too long for another. A rank that finds that it was
// paused itself complains about itself.
struct Complaint {
  static constexpr std::size_t kNobody =
      ~std::size_t{0};  // it cannot tell whom

  std::size_t from = 0;
  std::size_t about = kNobody;
  std::uint32_t waited_ms = 0;
};

bool has_complained(const std::vector<Complaint>& all, std::size_t rank);

struct Blame {
  std::size_t suspect = 0;
  bool answers = false;  // now, at least: it was paused or slow
};

// Who is at fault where ranks miss each other in a chain: not those who
// complain, for they are alive, but the one among the missed that is silent,
// and of several the one that was missed first. Where all of them answer, the
// one that says it was paused, or has itself waited least. `all` begins with
// the complaint of the rank that asks.
Blame judge_complaints(const std::vector<Complaint>& all, std::size_t ranks);

}  // namespace sluice
