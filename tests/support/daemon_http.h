#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/file_descriptor.h"
#include "src/base/json_text.h"
#include "src/ipc/http_client.h"
#include "src/ipc/http_socket.h"

namespace harmonaize::testing {

/// Longest wait for an answer of a daemon, in milliseconds; far longer than one takes.
constexpr int kAnsweredWithinMs = 20'000;

/// The status and the document of an answer.
using Answer = std::pair<int, nlohmann::json>;

/// Connects to a Unix socket.
inline FileDescriptor ConnectTo(const std::string& path) {
  FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << path;
  return fd;
}

/// Makes a request at the HTTP socket beside a daemon's own, of tenants or of operators.
inline Answer Ask(const std::string& daemon_socket, const HttpCall& call) {
  const FileDescriptor socket = ConnectTo(HttpSocketPath(daemon_socket));
  const Result<HttpReply> reply = CallHttp(socket, call, kAnsweredWithinMs);
  EXPECT_TRUE(reply.ok()) << reply.status().message();
  if (!reply.ok()) return {0, nullptr};
  return {reply->status, ReadJson(reply->body)};
}

}  // namespace harmonaize::testing
