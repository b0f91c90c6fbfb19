#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/collective/exchange_context.h"
#include "sluice/core/registry.h"
#include "sluice/cost/model.h"

namespace sluice {

class DenseAllreduce;

// The result of an exchange.
struct Delivery {
  Pieces sum;       // over the ranks, the same bits on every rank
  Pieces returned;  // lists that this rank must add to its own residual
  // The first so many of them are entries that this rank selected and of which
  // nothing was delivered.
  std::size_t refused = 0;
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
  // Itself, if it can also sum vectors of which everything travels.
  virtual DenseAllreduce* as_dense() { return nullptr; }

  // Whether values that were selected as fp32, bf16 or fp16 travel so, at least
  // until they are summed; otherwise they would be rounded for nothing.
  virtual bool carries(ValueForm) const { return true; }

  // Needs Contribution::rest.
  virtual bool needs_rest() const { return false; }

  // Where it keeps what it must know of the network and does not know yet; null
  // if there is nothing of the kind. Whoever knows may fill it in, alike on all
  // ranks; otherwise reduce() measures.
  virtual Network* unknown_network() { return nullptr; }

  // Throws CommError, and then nothing may be committed. One rank alone gets
  // back what it brought.
  void reduce(Communicator& comm, ExchangeContext& context,
              const Contribution& mine, Delivery& out);

  // Before anything is committed, once the context's stream has come so far:
  // throws CommError if the device could not read what a peer sent. False, on
  // all ranks alike, if something did not fit and all of them must reduce() the
  // same once more; that will fit.
  virtual bool verify(Communicator&) { return true; }

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

 protected:
  // For load(), which may be given anything: whether it is a whole number that
  // a count can have been saved as.
  static bool is_count(double v) { return v >= 0 && v <= 0x1p53; }

 private:
  virtual void run(Communicator& comm, ExchangeContext& context,
                   const Contribution& mine, Delivery& out) = 0;
};

// One that sums dense vectors of the host as well.
class DenseAllreduce : public SparseAllreduce {
 public:
  DenseAllreduce* as_dense() override { return this; }

  // Values are rounded on their way: what this rank rounds off is its own to
  // keep.
  virtual bool rounds() const { return false; }
  bool carries(ValueForm form) const override {
    return form != ValueForm::kFp16 && (form != ValueForm::kBf16 || rounds());
  }
  // The sum of `in` over all ranks in `out`, which may be the same memory. With
  // rounds(), `remainders` are set to what was rounded off here. `owner`: see
  // Communicator::native_sum().
  void sum(Communicator& comm, std::uint64_t step, std::span<const float> in,
           std::span<float> out, std::span<float> remainders,
           const MemoryOwner& owner = {});

  // The same in place, started, by the engine's own beside others; null if it
  // cannot. Communicator::finish_native_sum() waits for it, in a call of its
  // own. May be called while the communicator is in another one.
  std::unique_ptr<Engine::Sum> start_sum(Communicator& comm,
                                         std::span<float> values,
                                         const MemoryOwner& owner);
  // Whether it does so by the engine's own, which copies what has no owner.
  virtual bool by_engine() const { return false; }

  // Whether it can do so on a device that has a link, among several ranks.
  virtual bool takes_link() const { return true; }
  // The same, enqueued: all of it is memory of the context's device. In another
  // order than sum(), so that sums may differ in their last bits.
  void sum_on_device(Communicator& comm, ExchangeContext& context,
                     std::uint64_t step, std::span<const float> in,
                     std::span<float> out, std::span<float> remainders);

 private:
  void run(Communicator& comm, ExchangeContext& context,
           const Contribution& mine, Delivery& out) override;
  virtual void sum_now(Communicator& comm, std::span<const float> in,
                       std::span<float> out, std::span<float> remainders,
                       const MemoryOwner& owner) = 0;
  virtual void enqueue_sum(Communicator& comm, ExchangeContext& context,
                           std::span<const float> in, std::span<float> out,
                           std::span<float> remainders) = 0;

  Array<float> dense_;
  Array<float> remainders_;
  HostList returned_;
};

// A row of the table: a collective's class also has a static `cost`, what it
// takes on paper.
struct CollectiveEntry : RegistryEntry<SparseAllreduce> {
  CostFunction cost = nullptr;
};

template <class T>
constexpr CollectiveEntry collective_entry() {
  return {registry_entry<T, SparseAllreduce>(), &T::cost};
}

// Every collective there is.
std::span<const CollectiveEntry> collectives();

// What they cost, in the same order: for planners, which know no collective.
std::span<const CostRow> collective_costs();

// From "name", "name:key=value,..." or a JSON object; see parse_spec.
std::unique_ptr<SparseAllreduce> make_collective(std::string_view text);

}  // namespace sluice
