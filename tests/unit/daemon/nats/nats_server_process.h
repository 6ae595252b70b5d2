#pragma once

#include <nats/nats.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace harmonaize::testing {

/// A nats-server of the test's own, on loopback, with a folder of its own. The constructor starts
/// it and returns once it listens, at a port that the kernel chooses; the destructor ends it.
class NatsServerProcess {
 public:
  /// Returns why there is no server for tests; "" where there is.
  static std::string WhyNot();

  /// `config` is the text of a nats-server.conf without host, port and the server's folders;
  /// "FOLDER" in it stands for the folder.
  explicit NatsServerProcess(const std::string& config);
  ~NatsServerProcess();
  NatsServerProcess(const NatsServerProcess&) = delete;
  NatsServerProcess& operator=(const NatsServerProcess&) = delete;

  /// Returns a folder for files of the test.
  static std::string MakeFolder();

  const std::string& folder() const { return folder_; }
  uint16_t port() const { return port_; }
  /// Returns its address, such as "nats://127.0.0.1:PORT".
  std::string url(const std::string& scheme = "nats", const std::string& host = "127.0.0.1") const;
  /// Sends SIGKILL, to end it as a crash would.
  void Kill();
  /// Starts it again at the same port, with what it has in its folder.
  void StartAgain() { Start(port_); }

 private:
  void Start(int port);

  std::string config_;
  std::string folder_;
  uint16_t port_ = 0;
  pid_t pid_ = -1;
};

/// What a stream has kept.
struct KeptMessage {
  std::string subject;
  std::string id;
  std::string content_type;
  std::string content;
};

/// A client of a server, that is not ours but a subscriber's or an operator's.
class NatsClient {
 public:
  /// Who it is; "": nobody.
  struct User {
    std::string name = {};
    std::string password = {};
    std::string ca_file = {};
  };

  /// Connects; connected() tells whether that has succeeded.
  explicit NatsClient(const std::string& url, const User& user);
  NatsClient(const std::string& url);  // NOLINT(google-explicit-constructor)
  ~NatsClient();
  NatsClient(const NatsClient&) = delete;
  NatsClient& operator=(const NatsClient&) = delete;

  bool connected() const { return connection_ != nullptr; }

  /// Returns the number of messages that a stream has; nullopt where there is none.
  std::optional<uint64_t> Messages(const std::string& stream);
  /// Waits until a stream has this many messages; returns false after half a minute.
  bool WaitForMessages(const std::string& stream, uint64_t messages);
  /// Returns all that a stream has, in its order.
  std::vector<KeptMessage> Read(const std::string& stream);
  /// Makes a durable consumer of a stream, which pulls the subjects of a filter.
  natsStatus AddConsumer(const std::string& stream, const std::string& name,
                         const std::string& filter);

  /// Subscribes to a subject.
  natsSubscription* Subscribe(const std::string& subject);
  /// Returns the subjects of what a subscription gets until nothing has come for so long.
  static std::vector<std::string> Received(natsSubscription* subscription, int silence_ms);
  /// Publishes without an answer, and waits until the server has read it.
  void Publish(const std::string& subject, const std::string& content);
  /// Asks for an answer, and returns it; nullopt if none comes.
  std::optional<std::string> Ask(const std::string& subject, const std::string& content);
  /// Asks a consumer for messages, acknowledges them, and returns them.
  std::vector<KeptMessage> Pull(const std::string& stream, const std::string& consumer, int most);

 private:
  natsConnection* connection_ = nullptr;
  jsCtx* context_ = nullptr;
  std::vector<natsSubscription*> subscriptions_;
};

}  // namespace harmonaize::testing
