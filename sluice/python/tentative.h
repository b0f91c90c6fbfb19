#pragma once

#include <cstdint>

#include "sluice/comm/communicator.h"
#include "sluice/sync/gradient_sync.h"

namespace sluice {

// Steps of a sync that may be taken back. What the sync keeps is set aside when
// a block is entered, and stays so until the first step after the block. Used
// between two steps; refers to all that it is given.
class Tentative {
 public:
  Tentative(Communicator& comm, GradientSync& sync)
      : comm_(comm), sync_(sync) {}

  // Begins a block, before step number `step`. Throws std::logic_error inside
  // another one.
  void enter(std::uint64_t step);
  void leave() { inside_ = false; }
  // A step begins: outside of a block, those before it stay.
  void begin_step() { kept_ = kept_ && inside_; }
  // What was set aside is of another run.
  void forget() { kept_ = false; }

  // A call of all ranks: everything that is kept is as it was when the block
  // was entered, on all of them or on none. Throws std::logic_error if nothing
  // is set aside, AgreedError on all ranks unless all have entered before the
  // same step. After a CommError this rank does not know: see recover().
  void discard();
  // After an error, on all ranks: if any of them has discarded, so do those
  // that do not know.
  void recover();

  std::uint64_t discards() const { return discards_; }

 private:
  void bring_back();

  Communicator& comm_;
  GradientSync& sync_;
  bool inside_ = false;
  bool kept_ = false;          // something is set aside
  bool in_doubt_ = false;      // whether the others have discarded it
  std::uint64_t entered_ = 0;  // before this step
  std::uint64_t discards_ = 0;
};

}  // namespace sluice
