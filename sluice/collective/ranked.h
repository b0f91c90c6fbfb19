#pragma once

#include "sluice/collective/entries.h"

namespace sluice {

// A list and the number of entries that a merge of it may keep.
struct Ranked {
  Entries entries;
  std::uint64_t k = 0;
};

void send_ranked(Communicator& comm, std::size_t peer, std::uint32_t phase,
                 const Ranked& list, std::uint64_t n);
void receive_ranked(Communicator& comm, std::size_t peer, std::uint32_t phase,
                    std::uint64_t n, Ranked& list);

}  // namespace sluice
