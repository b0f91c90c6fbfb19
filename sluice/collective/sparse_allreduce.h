#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/collective/entries.h"
#include "sluice/comm/communicator.h"
#include "sluice/core/registry.h"
#include "sluice/cost/model.h"

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

// What comes of it. Its memory is used again in the next step.
struct Delivery {
  Pieces sum;       // over the ranks, the same bits on every rank
  Pieces returned;  // what this rank must add to its own residual

  // The sum divided by the number of ranks.
  void write_mean(std::span<float> mean, std::size_t ranks) const {
    sum.write(mean, 1.0F / static_cast<float>(ranks));
  }
};

// An algorithm that sums sparse entries over all ranks. Knows nothing of how
// they were chosen. One instance serves one bucket, on all ranks alike.
//
// Law 1: the sum over ranks of `returned`, plus `sum`, is the sum over ranks of
// what was selected.
class SparseAllreduce {
 public:
  static constexpr std::string_view kKind = "collective";

  virtual ~SparseAllreduce() = default;

  virtual std::string_view name() const = 0;
  // The sum of everything that was selected is delivered; nothing returns.
  virtual bool exact() const { return true; }

  // Needs Contribution::rest.
  virtual bool needs_rest() const { return false; }

  // Where it keeps what it must know of the network and does not know yet; null
  // if there is nothing of the kind. Whoever knows may fill it in, alike on all
  // ranks; otherwise reduce() measures.
  virtual Network* unknown_network() { return nullptr; }

  // Throws CommError, and then nothing may be committed.
  void reduce(Communicator& comm, const Contribution& mine, Delivery& out);

  // After a step that all ranks voted for. Some algorithms learn from it, and
  // all ranks must learn the same. `selected`: entries over all ranks, as the
  // vote counted them.
  virtual void commit(std::uint64_t /*selected*/) {}
  // After a step that failed: as if it had never been tried.
  virtual void roll_back() {}

  // What it has learned, for checkpoints: with it, the next steps give the same
  // bits. load() ignores what cannot be its own.
  virtual std::vector<double> save() const { return {}; }
  virtual void load(std::span<const double>) {}

 private:
  virtual void run(Communicator& comm, const Contribution& mine,
                   Delivery& out) = 0;
};

using CollectiveEntry = RegistryEntry<SparseAllreduce>;

// Every collective there is.
std::span<const CollectiveEntry> collectives();

// From "name", "name:key=value,..." or a JSON object; see parse_spec.
std::unique_ptr<SparseAllreduce> make_collective(std::string_view text);

}  // namespace sluice
