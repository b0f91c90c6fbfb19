// Preloaded into mpirun: sockets that would listen on all interfaces listen on
// the loopback alone.
//
// Open MPI 4.1 binds the socket by which its daemons talk to INADDR_ANY,
// whatever oob_tcp_if_include says, and takes orders there without a password.
// On one host there are no daemons.

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

extern "C" __attribute__((visibility("default"))) int bind(
    int fd, const sockaddr* address, socklen_t size) noexcept {
  sockaddr_storage own = {};
  size = std::min<socklen_t>(size, sizeof(own));
  std::memcpy(&own, address, size);
  if (own.ss_family == AF_INET) {
    auto* to = reinterpret_cast<sockaddr_in*>(&own);
    if (to->sin_addr.s_addr == htonl(INADDR_ANY)) {
      to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
  } else if (own.ss_family == AF_INET6) {
    auto* to = reinterpret_cast<sockaddr_in6*>(&own);
    if (IN6_IS_ADDR_UNSPECIFIED(&to->sin6_addr)) {
      to->sin6_addr = in6addr_loopback;
    }
  }
  return static_cast<int>(syscall(SYS_bind, fd, &own, size));
}
