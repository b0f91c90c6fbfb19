#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/comm/communicator.h"

namespace sluice {

// A call of all ranks. Throws AgreedError on all of them if one has a problem
// (a text that is not empty), or if they have not all the same value of `what`.
// `operation` and `call`: see Communicator::begin().
void agree_on(Communicator& comm, std::string_view operation,
              std::uint64_t call, std::string_view what,
              const std::string& value, const std::string& problem = "");

// A call of all ranks: the largest of what they bring.
std::uint64_t largest(Communicator& comm, std::string_view operation,
                      std::uint64_t call, std::uint64_t mine);

}  // namespace sluice
