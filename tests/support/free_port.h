#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "src/base/file_descriptor.h"

namespace harmonaize::testing {

/// Returns a TCP port of loopback that nobody has now.
inline uint16_t FreePort() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(socket.get(), any, sizeof address), 0);
  socklen_t bytes = sizeof address;
  EXPECT_EQ(getsockname(socket.get(), any, &bytes), 0);
  return ntohs(address.sin_port);
}

}  // namespace harmonaize::testing
