#include "sluice/python/agree_on.h"

#include <algorithm>

#include "sluice/core/error.h"
#include "sluice/run/ranks.h"

namespace sluice {

void agree_on(Communicator& comm, std::string_view operation,
              std::uint64_t call, std::string_view what,
              const std::string& value, const std::string& problem) {
  const auto all = gather_at_first(comm, operation, call, to_bytes(value));
  std::string found = problem;
  for (std::size_t r = 1; r < all.size() && found.empty(); ++r) {
    if (all[r] == all[0]) continue;
    found = concat("[", operation, "] all ranks must have the same value of ",
                   what, ", but rank ", r, " has ", to_string(all[r]),
                   " and rank 0 has ", value);
  }
  agree(comm, operation, call, found);
}

std::uint64_t largest(Communicator& comm, std::string_view operation,
                      std::uint64_t call, std::uint64_t mine) {
  const auto all =
      gather_at_first(comm, operation, call, to_bytes(std::to_string(mine)));
  for (const Bytes& bytes : all) {
    mine = std::max<std::uint64_t>(mine, std::stoull(to_string(bytes)));
  }
  return std::stoull(
      broadcast_first(comm, operation, call, std::to_string(mine)));
}

}  // namespace sluice
