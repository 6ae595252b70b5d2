#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <span>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/ipc/control_socket.h"

namespace harmonaize::testing {

/// Sends, with a message, the last reference to a TCP connection for whose close the kernel waits:
/// it lingers, and holds bytes that its peer does not take. A child makes it, because only a
/// process that ends does not wait, should the daemon have closed it before. `kept` gets the peer's
/// end: the wait ends when that is closed. Returns whether it could be made.
[[nodiscard]] inline bool SendLingering(ControlSocket& socket,
                                        const std::vector<std::byte>& message,
                                        std::vector<FileDescriptor>* kept) {
  FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return false;
  }
  const pid_t child = fork();
  if (child == 0) {
    const int sender = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const linger for_an_hour{1, 3600};
    if (connect(sender, reinterpret_cast<sockaddr*>(&address), length) != 0) _exit(1);
    setsockopt(sender, SOL_SOCKET, SO_LINGER, &for_an_hour, sizeof for_an_hour);
    const std::vector<char> bytes(1 << 20);
    while (send(sender, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
    // A daemon that has hung up meanwhile takes nothing.
    static_cast<void>(socket.Send(message, std::span(&sender, 1)));
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return false;
  kept->emplace_back(accept(listener.get(), nullptr, nullptr));
  kept->push_back(std::move(listener));
  return true;
}

}  // namespace harmonaize::testing
