#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/collective/patterns.h"
#include "sluice/core/message.h"

// What ranks do together between steps. Each is a call of its own.

namespace sluice {

// Something that all ranks know of and stop for. One of them should say so.
class AgreedError : public std::runtime_error {
 public:
  AgreedError(const std::string& message, std::size_t speaker)
      : std::runtime_error(message), speaker_(speaker) {}
  std::size_t speaker() const { return speaker_; }

 private:
  std::size_t speaker_;
};

// Rank 0's bytes, on all ranks.
Bytes broadcast_first(Communicator& comm, std::string_view what,
                      std::uint64_t step, const Bytes& bytes);
std::string broadcast_first(Communicator& comm, std::string_view what,
                            std::uint64_t step, const std::string& text);

// Throws AgreedError on all ranks if any rank has a problem (a text that is not
// empty), which it names.
void agree(Communicator& comm, std::string_view what, std::uint64_t step,
           const std::string& problem);

// What `f` throws, as a problem for agree(); empty if nothing. A CommError goes
// through: there is nobody left to agree with.
template <class F>
std::string problem_of(F&& f) {
  try {
    f();
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& e) {
    return message_of(e);
  }
  return {};
}

// Of this machine.
std::string host_name();

Bytes to_bytes(const std::string& text);
std::string to_string(std::span<const std::byte> bytes);

}  // namespace sluice
