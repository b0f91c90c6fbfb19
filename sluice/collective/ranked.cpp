#include "sluice/collective/ranked.h"

#include <cstring>

namespace sluice {

void send_ranked(Communicator& comm, std::size_t peer, std::uint32_t phase,
                 const Ranked& list, std::uint64_t n) {
  Bytes bytes = encode(list.entries, n);
  bytes.insert(bytes.begin(), sizeof(list.k), std::byte{0});
  std::memcpy(bytes.data(), &list.k, sizeof(list.k));
  comm.send(peer, phase, bytes);
}

void receive_ranked(Communicator& comm, std::size_t peer, std::uint32_t phase,
                    std::uint64_t n, Ranked& list) {
  const auto bytes = comm.receive(peer, phase);
  if (bytes.size() < sizeof(list.k)) comm.reject(peer, "a list without a k");
  std::memcpy(&list.k, bytes.data(), sizeof(list.k));
  decode_from(comm, peer, bytes.subspan(sizeof(list.k)), n, list.entries);
}

}  // namespace sluice
