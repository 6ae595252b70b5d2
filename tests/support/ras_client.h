// Speaks NCCL's RAS protocol as NCCL's own client does.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/file_descriptor.h"

namespace harmonaize::testing {

/// A connection to 127.0.0.1. Each read waits half a minute at most.
class RasClient {
 public:
  explicit RasClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  bool connected() const { return connected_; }
  int fd() const { return socket_.get(); }
  void Send(std::string_view text) const {
    // The other side may have closed, which the next read shows.
    static_cast<void>(send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL));
  }
  /// Returns the next line with its newline; what there is if the connection ends or nothing comes.
  std::string Line() {
    while (received_.find('\n') == std::string::npos && Receive()) {
    }
    const size_t end = received_.find('\n');
    const std::string line = received_.substr(0, end == std::string::npos ? end : end + 1);
    received_.erase(0, line.size());
    return line;
  }
  /// Returns all until the connection ends.
  std::string Rest() {
    while (Receive()) {
    }
    return std::exchange(received_, {});
  }
  /// Returns whether the connection has ended, after all that was sent was read.
  bool ended() const { return ended_; }

  /// Says what NCCL's client says before a command. `timeout`: its -t, -1: none; `format`: its -f,
  /// "": none. Returns whether all was answered as the client wants it.
  bool Greet(int timeout = -1, const std::string& format = "") {
    Send("CLIENT PROTOCOL 2\n");
    if (Line() != "SERVER PROTOCOL 2\n") return false;
    if (timeout >= 0) {
      Send("TIMEOUT " + std::to_string(timeout) + "\n");
      if (Line() != "OK\n") return false;
    }
    if (format.empty()) return true;
    Send("SET FORMAT " + format + "\n");
    return Line() == "OK\n";
  }
  /// Returns the answer to STATUS.
  std::string Status(bool verbose = false) {
    Send(verbose ? "VERBOSE STATUS\n" : "STATUS\n");
    return Rest();
  }

 private:
  bool Receive() {
    if (ended_) return false;
    pollfd waiting{socket_.get(), POLLIN, 0};
    if (poll(&waiting, 1, 30'000) <= 0) return false;
    char bytes[4096];
    const ssize_t count = recv(socket_.get(), bytes, sizeof bytes, 0);
    if (count <= 0) {
      ended_ = true;
      return false;
    }
    received_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  FileDescriptor socket_;
  bool connected_ = false;
  bool ended_ = false;
  std::string received_;
};

/// Asks as NCCL's client does, and returns the answer.
inline std::string AskRas(uint16_t port, bool verbose = false, const std::string& format = "") {
  RasClient client(port);
  EXPECT_TRUE(client.Greet(-1, format));
  return client.Status(verbose);
}

}  // namespace harmonaize::testing
