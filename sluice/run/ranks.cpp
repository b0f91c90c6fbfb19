#include "sluice/run/ranks.h"

#include <unistd.h>

#include "sluice/core/error.h"

namespace sluice {

Bytes broadcast_first(Communicator& comm, std::string_view what,
                      std::uint64_t step, const Bytes& bytes) {
  comm.begin(what, step);
  const Frame frame = broadcast(comm, 0, 0, frame_of(comm, bytes));
  return {frame.payload().begin(), frame.payload().end()};
}

std::string broadcast_first(Communicator& comm, std::string_view what,
                            std::uint64_t step, const std::string& text) {
  return to_string(broadcast_first(comm, what, step, to_bytes(text)));
}

void agree(Communicator& comm, std::string_view what, std::uint64_t step,
           const std::string& problem) {
  const auto all = gather_at_first(comm, what, step, to_bytes(problem));
  std::string verdict;
  for (std::size_t r = 0; r < all.size() && verdict.empty(); ++r) {
    // Every rank may have the same to say; the first that has any says it.
    if (!all[r].empty()) verdict = concat(r, " ", to_string(all[r]));
  }
  verdict = broadcast_first(comm, what, step, verdict);
  if (verdict.empty()) return;
  const std::size_t space = verdict.find(' ');
  throw AgreedError(verdict.substr(space + 1),
                    std::stoul(verdict.substr(0, space)));
}

std::string host_name() {
  char name[256] = "?";
  gethostname(name, sizeof(name) - 1);
  return name;
}

Bytes to_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string to_string(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace sluice
