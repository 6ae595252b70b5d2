#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/http/http_exchange.h"
#include "daemon/http/http_services.h"
#include "daemon/quota/holdings.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/address.h"
#include "src/transport/listening_sockets.h"

namespace harmonaize::daemon {

class HttpThread;
class TlsCertificate;

struct HttpOptions {
  HttpLimits limits = {};
  /// Names under which the host is reached over TCP, beside "localhost" and its literal addresses.
  std::vector<std::string> host_names = {};
  /// Paths that may be read with GET over TCP without a token, such as that of the status page.
  std::vector<std::string> open_paths = {"/"};
  /// Paths at which machines ask how the daemon is. GET requests there are counted apart from the
  /// caller's others, within the same limits, so that a caller that asks much fails no probe.
  std::vector<std::string> probe_paths = {"/readyz"};
  /// Paths whose answer to GET is always the same few bytes. Their requests are not counted, except
  /// those of strangers: connections are bounded, and each has one answer under way.
  std::vector<std::string> constant_paths = {"/healthz"};
  /// Where a one-time token is exchanged for a session: POST, with the token as the bearer's.
  std::string exchange_path = "/v1/token/exchange";
  std::shared_ptr<TokenStore> tokens = nullptr;  ///< Needed for TCP.
  std::shared_ptr<AuditLog> audit = nullptr;
  /// Opens the sockets that are listened at; nullptr: none was passed on to this program.
  std::shared_ptr<transport::ListeningSockets> listening = nullptr;
};

/// A connection at a Unix socket, whose other side is known.
struct AdoptedConnection {
  FileDescriptor socket;
  HttpCaller caller;
  Holding place;
  /// What the connection costs in memory; may be empty. Each event stream adds
  /// HttpLimits::stream_bytes, and is refused if the tenant may not have that.
  Holding memory = {};
};

/// The HTTP server of the daemon. Each tenant's connections at Unix sockets are served by a thread
/// of their own: what a tenant sends may hold descriptors that the kernel closes as soon as the
/// bytes are read, and closing a stranger's descriptor can make a thread wait for the stranger. All
/// connections over TCP share one thread. Thread: main.
class HttpServer {
 public:
  static Result<std::unique_ptr<HttpServer>> Create(HttpOptions options,
                                                    std::shared_ptr<HttpHandler> handler);
  /// Does what Close does.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Serves a connection. Errors: kInvalidUsage if there are as many threads as there may be, and
  /// kSystemError if there can be no further one. The connection is left as it was then; whoever
  /// closes it must not mind to wait for the tenant.
  Status Adopt(AdoptedConnection* connection);
  /// Listens at a literal address with TLS, and returns the address with the port in force. Errors
  /// name the address or the file; kUnavailable: another process has the port.
  Result<transport::NetworkAddress> ListenTls(const std::string& address,
                                              const std::string& certificate_path,
                                              const std::string& key_path);
  /// Listens without TLS, at a loopback address alone.
  Result<transport::NetworkAddress> ListenPlain(const std::string& address);

  /// Closes all connections; the handler is not called any more once this returns. Returns false if
  /// a tenant keeps a thread, which is left behind and ends once it is free. Requires: the caller
  /// holds no lock that the handler or the news of a stream takes.
  bool Close();
  /// Number of threads that serve. For tests and reports.
  size_t threads() const;

 private:
  struct ThreadKey {
    uint32_t tenant = 0;
    HttpScope scope = HttpScope::kTenant;
    auto operator<=>(const ThreadKey&) const = default;
  };

  HttpServer(HttpOptions options, std::shared_ptr<HttpHandler> handler);

  Result<std::shared_ptr<HttpThread>> StartThreadFor(const HttpCaller& caller);
  Result<transport::NetworkAddress> Listen(const transport::NetworkAddress& address,
                                           std::unique_ptr<TlsCertificate> certificate);
  Status StartTcp();
  void ForgetClosed();

  const std::shared_ptr<HttpServices> services_;
  const std::vector<std::string> host_names_;  // in lower case
  const std::shared_ptr<transport::ListeningSockets> listening_;
  std::map<ThreadKey, std::shared_ptr<HttpThread>> tenants_;
  std::shared_ptr<HttpThread> tcp_;
  uint64_t next_thread_ = 1;
  bool closed_ = false;
};

}  // namespace harmonaize::daemon
