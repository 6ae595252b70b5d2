#include "cli/run/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "src/base/file_descriptor.h"

namespace harmonaize {

Result<uint16_t> FreePort(const std::string& address) {
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError(errno, "cannot make a socket");
  sockaddr_in bound{};
  bound.sin_family = AF_INET;
  if (::inet_pton(AF_INET, address.c_str(), &bound.sin_addr) != 1) {
    return InvalidArgument("'{}' is no IPv4 address", address);
  }
  socklen_t length = sizeof(bound);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&bound), sizeof(bound)) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return ErrnoError(errno, "cannot find a free port on " + address);
  }
  return ntohs(bound.sin_port);
}

}  // namespace harmonaize
