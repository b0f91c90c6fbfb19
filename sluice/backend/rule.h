#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "sluice/backend/tails.h"
#include "sluice/core/device.h"

// How a sparsifier talks to a backend.
//
// A rule is four pure functions over plain data, called for each segment and
// step in this order (from `ask` again after a verdict of kAgain):
//
//   ask      what must be known about the accumulated gradient first?
//   propose  a bracket of magnitudes that should hold the cut
//   (the backend streams over the segment and counts)
//   judge    take so many of the largest, try again, or select exactly
//   (the backend resolves the cut)
//   observe  remember what happened for the next step
//
// Everything a rule knows lives in a RuleState per segment, which may be device
// memory. The functions allocate nothing, do no I/O and touch only their
// arguments, so a device can run them beside its kernels without a host sync.

namespace sluice {

// Brackets that a rule may propose in one step. A rule that asks for more has
// its k largest selected exactly, which takes at most two passes: a device can
// enqueue a whole step without knowing how it will go.
inline constexpr std::uint32_t kMaxRounds = 16;

// What is the same for every call about one segment in one step.
struct SegmentFacts {
  std::uint64_t n = 0;            // elements
  std::uint64_t k = 0;            // the budget: entries asked for
  double density = 1;             // what k was made from
  std::uint64_t step = 0;         // counts from 0
  std::uint64_t total_steps = 0;  // 0: unknown
  std::uint64_t tensor = 0;       // the tensor's id, equal on all ranks
  std::uint64_t seed = 0;
  // Elements that the device looks at for next to nothing, but not more than
  // the cheap_share-th part; it may set others.
  std::uint64_t cheap_sample = 1U << 15;
  std::uint64_t cheap_share = 16;
};

// One segment's memory between steps. Zero bytes are a fresh state.
struct alignas(8) RuleState {
  std::array<std::byte, 96> raw{};
};

// A rule's constants, as given by the user.
struct alignas(8) RuleParams {
  std::array<std::byte, 96> raw{};
};

// What a rule wants to know before it proposes a bracket.
struct Query {
  // Elements to look at: 0 none, from n / 2 on all, otherwise whole lines
  // of 16.
  std::uint64_t sample = 0;
  std::uint64_t stride = 0;  // > 0: exactly start, start + stride, ...
  std::uint64_t start = 0;   //      otherwise jittered, stratified lines
  bool histogram = false;    // its tail sums are wanted
  bool sums = false;         // of x, |x| and x^2; the largest |x| always comes
  // Ranks (1 = largest magnitude) in the sample whose keys are wanted; 0: none.
  std::array<std::uint64_t, 3> ranks{};
  // The keys of the ranks may be a little off, by less than a bin of the tail
  // sums: a device tells them sooner then.
  bool rough = false;
  bool rows = false;  // skip the rest: select row by row in this step
};

// Moments of the elements looked at. Non-finite ones are counted, then ignored.
struct Moments {
  std::uint64_t count = 0;  // finite elements
  std::uint64_t nonfinite = 0;
  double sum = 0;
  double sum_abs = 0;
  double sum_sq = 0;
  double max_abs = 0;
};

struct Answer {
  std::uint64_t sampled = 0;
  Moments moments;
  Tails tails;                          // only while the rule is called
  std::array<std::uint32_t, 3> keys{};  // 0 where the rank was 0
};

// Entries with key >= lo become candidates; those with key >= hi are expected
// to be taken. lo == kInfKey selects nothing, lo == 0 all there is: whatever a
// rule says, zeros are never candidates.
struct Bracket {
  std::uint32_t lo = 0;
  std::uint32_t hi = 0;
  // hi == lo + 1 and only the first k ties at lo, in index order, can matter:
  // the pass may stop recording ties once it has k of them.
  bool ties = false;
  bool exact = false;  // skip the pass: select the k largest
};

// How many passed; the same however a backend splits its work.
struct Counts {
  std::uint64_t lo = 0;  // candidates, those >= hi included; of ties at most k
  std::uint64_t hi = 0;
  // More than `lo` candidates, which is all that is known: hi is 0, and to take
  // some of them means to select exactly.
  bool overflow = false;
  bool all = false;  // below the bracket there is nothing but zeros
};

struct Verdict {
  enum Kind : std::uint8_t {
    kTake,   // the `count` largest candidates
    kAgain,  // ask and propose once more
    kExact,  // the `count` largest of the segment, whatever the candidates say
  };
  Kind kind = kTake;
  std::uint64_t count = 0;
};

struct Outcome {
  // Fewer than what was to be taken: no more are finite and not 0.
  std::uint64_t selected = 0;
  std::uint32_t threshold_key = kOpenKey;  // smallest selected key
  bool tied = false;     // more entries at threshold_key than were taken
  bool by_rows = false;  // the step went row by row; threshold_key is unset
  std::uint32_t rounds = 0;
  bool exact = false;  // the exact fallback ran
  static constexpr std::uint32_t kOpenKey = 0xffffffffU;
};

// The arguments shared by the four functions.
struct RuleCall {
  const SegmentFacts& facts;
  const RuleParams& params;
  RuleState& state;
  std::uint32_t round = 0;  // brackets of this step that have failed
};

// Which rule it is, for a device, where host function pointers do not serve: it
// has the same functions compiled in a table (sluice/sparsify/rules.h). kCustom
// rules run on the host side only.
enum class RuleId : std::uint32_t { kCustom = 0xffffffffU };

struct Rule {
  RuleId id = RuleId::kCustom;
  std::uint32_t rounds = kMaxRounds;  // brackets per step, at most kMaxRounds
  Query (*ask)(const RuleCall&) = nullptr;
  Bracket (*propose)(const RuleCall&, const Answer&) = nullptr;
  Verdict (*judge)(const RuleCall&, const Counts&) = nullptr;
  void (*observe)(const RuleCall&, const Outcome&) = nullptr;
  int sign = 0;  // +1 or -1: only entries of that sign take part
  RuleParams params{};
};

// Views of the raw bytes as a rule's own types.
template <class T>
SLUICE_HD T& state_as(RuleState& state) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(state));
  return *reinterpret_cast<T*>(state.raw.data());
}

template <class T>
SLUICE_HD const T& params_as(const RuleParams& params) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(params));
  return *reinterpret_cast<const T*>(params.raw.data());
}

template <class T>
RuleParams pack_params(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  RuleParams params;
  static_assert(sizeof(T) <= sizeof(params));
  std::memcpy(params.raw.data(), &value, sizeof(T));
  return params;
}

}  // namespace sluice
