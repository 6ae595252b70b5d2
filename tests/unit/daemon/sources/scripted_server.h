#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "src/base/file_descriptor.h"

namespace harmonaize::daemon {

/// A certificate that signs itself, for one host, with its key.
struct TestCertificate {
  std::string certificate;  ///< PEM.
  std::string key;          ///< PEM.
};

/// Makes a certificate for `subject`, such as "IP:127.0.0.1" or "DNS:localhost", that is valid from
/// yesterday for `days`.
TestCertificate MakeCertificate(const std::string& subject, int days = 30);

/// A connection that a scripted server has accepted. Thread: its handler's.
class ServedConnection {
 public:
  ServedConnection(FileDescriptor socket, SSL_CTX* tls, const std::atomic<bool>& ends);
  ~ServedConnection();

  /// Agrees on TLS, if it is spoken; returns false if that fails.
  bool Begin();
  /// Returns false once the other side has closed, or the server ends.
  bool Send(const std::string& bytes);
  std::string Receive();
  /// Waits; returns false if the server ends.
  bool Wait(int milliseconds) const;
  int fd() const { return socket_.get(); }

 private:
  FileDescriptor socket_;
  SSL* tls_ = nullptr;
  const std::atomic<bool>& ends_;
};

/// A request as the server got it, with header names in lower case.
struct ServedRequest {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;
  std::string body;

  std::string Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

/// Returns an answer with its length, as bytes.
std::string Answer(int status, const std::string& body, const std::string& headers = "");

/// An HTTP server on 127.0.0.1 that answers as a test says, properly or not.
class ScriptedServer {
 public:
  /// Called for each request, on a thread of the connection's own.
  using Handler = std::function<void(const ServedRequest&, ServedConnection&)>;

  explicit ScriptedServer(Handler handler, const TestCertificate* certificate = nullptr);
  ~ScriptedServer();

  int port() const { return port_; }
  std::string endpoint() const;
  int connections() const { return connections_; }

 private:
  void Accept();
  void Serve(ServedConnection& connection);

  const Handler handler_;
  SSL_CTX* tls_ = nullptr;
  FileDescriptor listener_;
  int port_ = 0;
  std::atomic<bool> ends_{false};
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::list<std::unique_ptr<ServedConnection>> served_;  // guarded by mutex_
  std::list<std::thread> threads_;                       // of the accepting thread
  std::thread accepting_;
};

}  // namespace harmonaize::daemon
