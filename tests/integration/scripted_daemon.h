// A daemon that answers HTTP as a test says, for what no real one can be brought to say at will.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/run/private_daemon.h"
#include "src/base/file_descriptor.h"

namespace harmonaize::testing {

/// Listens where a daemon does, for tenants and operators, and answers each request with what the
/// script returns for it. Each connection serves one request.
class ScriptedDaemon {
 public:
  /// Returns the whole answer to a request, which is given as it came.
  using Script = std::function<std::string(const std::string& request)>;

  explicit ScriptedDaemon(Script script) : script_(std::move(script)) {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    EXPECT_TRUE(folder.ok()) << folder.status().message();
    folder_ = std::move(*folder);
    control_ = Listen("harmonaized.sock", SOCK_SEQPACKET);
    http_ = Listen("operator-http.sock", SOCK_STREAM);
    thread_ = std::thread([this] { Serve(); });
  }
  ~ScriptedDaemon() {
    // Wakes the thread, whose accept then fails.
    shutdown(http_.get(), SHUT_RDWR);
    thread_.join();
  }
  ScriptedDaemon(const ScriptedDaemon&) = delete;
  ScriptedDaemon& operator=(const ScriptedDaemon&) = delete;

  std::string socket_path() const { return folder_.path() + "/harmonaized.sock"; }
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  /// Returns an answer with a document.
  static std::string Answer(int status, const std::string& body,
                            const std::string& type = "application/json") {
    return "HTTP/1.1 " + std::to_string(status) + " Status\r\nContent-Type: " + type +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  /// Returns the beginning of a stream of events, which ends with the connection.
  static std::string Stream(const std::string& events) {
    return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + events;
  }

 private:
  FileDescriptor Listen(const std::string& name, int type) const {
    FileDescriptor listener(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_.path() + "/" + name;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener.get(), 64), 0);
    return listener;
  }

  void Serve() {
    while (true) {
      const FileDescriptor connection(accept4(http_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection.valid()) return;
      const std::string request = Read(connection.get());
      if (request.empty()) continue;  // somebody looked whether there is a daemon
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      const std::string answer = script_(request);
      send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }

  static std::string Read(int connection) {
    std::string request;
    char buffer[4096];
    const auto whole = [&] {
      const size_t head = request.find("\r\n\r\n");
      if (head == std::string::npos) return false;
      const size_t length = request.find("Content-Length: ");
      const size_t body = length == std::string::npos ? 0 : std::stoul(request.substr(length + 16));
      return request.size() >= head + 4 + body;
    };
    while (!whole()) {
      const ssize_t got = recv(connection, buffer, sizeof buffer, 0);
      if (got <= 0) return "";
      request.append(buffer, static_cast<size_t>(got));
    }
    return request;
  }

  const Script script_;
  TemporaryFolder folder_;
  FileDescriptor control_;
  FileDescriptor http_;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace harmonaize::testing
