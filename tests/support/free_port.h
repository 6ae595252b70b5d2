#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "src/base/file_descriptor.h"

namespace harmonaize::testing {

/// Returns the TCP port to which a socket is bound.
inline uint16_t PortOf(const FileDescriptor& socket) {
  sockaddr_in address{};
  socklen_t bytes = sizeof address;
  EXPECT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  return ntohs(address.sin_port);
}

/// Returns a TCP port of loopback to which no socket is bound at this time.
inline uint16_t FreePort() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return PortOf(socket);
}

}  // namespace harmonaize::testing
