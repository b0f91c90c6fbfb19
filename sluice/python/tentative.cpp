#include "sluice/python/tentative.h"

#include <string>

#include "sluice/core/ensure.h"
#include "sluice/python/agree_on.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

constexpr auto kDiscard = Communicator::between_steps(5);
constexpr auto kRecover = Communicator::between_steps(6);

}  // namespace

void Tentative::enter(std::uint64_t step) {
  expect(!inside_,
         "[tentative] a block must end before the next begins; one block may "
         "have several backward passes");
  sync_.set_aside();
  inside_ = true;
  kept_ = true;
  entered_ = step;
}

void Tentative::discard() {
  expect(kept_,
         "[discard] there must be something to take back, but nothing is set "
         "aside; run the backward pass in `with sync.tentative():` and call "
         "discard() there, or after it and before the next backward pass");
  in_doubt_ = true;
  try {
    agree_on(comm_, "discard", kDiscard, "the step to go back to",
             std::to_string(entered_ + 1));
  } catch (const AgreedError&) {
    in_doubt_ = false;
    throw;
  }
  bring_back();
}

void Tentative::recover() {
  const std::uint64_t most = largest(comm_, "recover", kRecover, discards_);
  if (in_doubt_ && most > discards_) bring_back();
  in_doubt_ = false;
  discards_ = most;
}

void Tentative::bring_back() {
  sync_.bring_back();
  ++discards_;
  kept_ = false;
  in_doubt_ = false;
}

}  // namespace sluice
