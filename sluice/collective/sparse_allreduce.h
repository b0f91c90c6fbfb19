#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sluice/collective/entries.h"
#include "sluice/comm/communicator.h"
#include "sluice/core/registry.h"

namespace sluice {

// What a rank brings to an exchange.
struct Contribution {
  const Entries& selected;
  std::uint64_t n = 0;  // of the bucket
  std::uint64_t k = 0;  // entries that a cutting algorithm may keep
  std::uint64_t step = 0;
  // How the selected values travel; what carries sums is fp32.
  ValueForm values = ValueForm::kFp32;
  // The accumulated gradient without the selected entries (the residual), for
  // algorithms that deliver more than was selected. May be empty.
  std::span<const float> rest;
};

// An algorithm that sums sparse entries over all ranks. Knows nothing of how
// they were chosen.
//
// Law 1: the sum over ranks of `returned`, plus P times `mean`, is the sum over
// ranks of what was selected.
class SparseAllreduce {
 public:
  static constexpr std::string_view kKind = "collective";

  virtual ~SparseAllreduce() = default;

  virtual std::string_view name() const = 0;
  // The sum of everything that was selected is delivered; nothing returns.
  virtual bool exact() const { return true; }

  // Replaces `mean` (n floats) by what is delivered, summed over the ranks and
  // divided by their number: the same bits on every rank. `returned` gets what
  // this rank must add to its own residual. Throws CommError, and then nothing
  // may be committed.
  void reduce(Communicator& comm, const Contribution& mine,
              std::span<float> mean, Entries& returned);

 private:
  // Adds the sum to `sum`, which is zero, and sets `returned`, which is empty.
  virtual void run(Communicator& comm, const Contribution& mine,
                   std::span<float> sum, Entries& returned) = 0;
};

using CollectiveEntry = RegistryEntry<SparseAllreduce>;

// Every collective there is.
std::span<const CollectiveEntry> collectives();

// From "name", "name:key=value,..." or a JSON object; see parse_spec.
std::unique_ptr<SparseAllreduce> make_collective(std::string_view text);

// The outcome of a step's vote.
enum class Decision : std::uint8_t { kCommit, kRollBack };

// One vote per step over all buckets: rank 0 gathers what everybody says and
// tells the decision, which is to commit only if all agree. A CommError here
// leaves a rank in doubt: it must keep what it has staged.
Decision vote(Communicator& comm, std::uint64_t step, bool success);

}  // namespace sluice
