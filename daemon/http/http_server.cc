#include "daemon/http/http_server.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include <boost/asio/post.hpp>

#include "daemon/http/http_thread.h"
#include "daemon/http/tcp_listener.h"
#include "daemon/http/tls_certificate.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

using transport::NetworkAddress;

/// Numbers of threads begin anew after this: the kernel keeps 15 bytes of a thread's name.
constexpr uint64_t kThreadNumbers = 1'000'000;

std::vector<std::string> NamesOfHost(const std::vector<std::string>& names) {
  std::vector<std::string> lower = {"localhost"};
  for (std::string name : names) {
    for (char& one : name) {
      if (one >= 'A' && one <= 'Z') one = static_cast<char>(one - 'A' + 'a');
    }
    lower.push_back(std::move(name));
  }
  return lower;
}

}  // namespace

HttpServer::HttpServer(HttpOptions options, std::shared_ptr<HttpHandler> handler)
    : services_(std::make_shared<HttpServices>(std::move(handler))),
      host_names_(NamesOfHost(options.host_names)),
      listening_(options.listening != nullptr ? std::move(options.listening)
                                              : std::make_shared<transport::ListeningSockets>()) {
  services_->limits = options.limits;
  services_->open_paths = std::move(options.open_paths);
  services_->probe_paths = std::move(options.probe_paths);
  services_->constant_paths = std::move(options.constant_paths);
  services_->exchange_path = std::move(options.exchange_path);
  services_->tokens = std::move(options.tokens);
  services_->audit = std::move(options.audit);
}

Result<std::unique_ptr<HttpServer>> HttpServer::Create(HttpOptions options,
                                                       std::shared_ptr<HttpHandler> handler) {
  if (handler == nullptr) return InternalError("an HTTP server needs a handler");
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(options), std::move(handler)));
}

HttpServer::~HttpServer() {
  static_cast<void>(Close());
}

// ---------------------------------------------------------------------------------------------
// Unix sockets

Status HttpServer::Adopt(AdoptedConnection* connection) {
  if (closed_) return InvalidUsage("the daemon ends");
  const ThreadKey key{connection->caller.tenant.number, connection->caller.scope};
  const auto known = tenants_.find(key);
  std::shared_ptr<HttpThread> thread = known == tenants_.end() ? nullptr : known->second;
  HttpPeer peer;
  peer.caller = connection->caller;
  peer.place = std::move(connection->place);
  peer.memory = std::move(connection->memory);
  Status status;
  if (thread == nullptr || !thread->Adopt(&connection->socket, &peer)) {
    // The tenant's thread before, if any, has ended.
    Result<std::shared_ptr<HttpThread>> started = StartThreadFor(connection->caller);
    status = started.status();
    if (started.ok()) {
      tenants_[key] = *started;
      (*started)->Adopt(&connection->socket, &peer);
    }
  }
  if (status.ok()) return status;
  connection->place = std::move(peer.place);
  connection->memory = std::move(peer.memory);
  return status;
}

Result<std::shared_ptr<HttpThread>> HttpServer::StartThreadFor(const HttpCaller& caller) {
  ForgetClosed();
  const size_t most = services_->limits.tenant_threads;
  if (tenants_.size() >= most) {
    return InvalidUsage(
        "the daemon serves the HTTP connections of {} tenants, which is as many as "
        "it may",
        most);
  }
  const uint64_t number = next_thread_++ % kThreadNumbers;
  return HttpThread::Start(services_, {fmt::format("hz-http-{}", number), caller.tenant, true});
}

void HttpServer::ForgetClosed() {
  std::erase_if(tenants_, [](const auto& entry) { return entry.second->closed(); });
}

// ---------------------------------------------------------------------------------------------
// TCP

Result<NetworkAddress> HttpServer::ListenTls(const std::string& address,
                                             const std::string& certificate_path,
                                             const std::string& key_path) {
  HZ_ASSIGN_OR_RETURN(const NetworkAddress parsed, NetworkAddress::Parse(address));
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<TlsCertificate> certificate,
                      TlsCertificate::Load(certificate_path, key_path));
  return Listen(parsed, std::move(certificate));
}

Result<NetworkAddress> HttpServer::ListenPlain(const std::string& address) {
  HZ_ASSIGN_OR_RETURN(const NetworkAddress parsed, NetworkAddress::Parse(address));
  if (!parsed.IsLoopback()) {
    return InvalidArgument(
        "without TLS the daemon listens at loopback addresses alone, and {} is "
        "none; give it a certificate and a key",
        address);
  }
  return Listen(parsed, nullptr);
}

Result<NetworkAddress> HttpServer::Listen(const NetworkAddress& address,
                                          std::unique_ptr<TlsCertificate> certificate) {
  if (closed_) return InvalidUsage("the daemon ends");
  if (services_->tokens == nullptr) return InternalError("TCP callers need tokens to show");
  HZ_ASSIGN_OR_RETURN(FileDescriptor socket, listening_->Listen(address));
  HZ_RETURN_IF_ERROR(StartTcp());
  HZ_ASSIGN_OR_RETURN(
      std::shared_ptr<TcpListener> listener,
      TcpListener::Open(tcp_.get(), std::move(socket), host_names_, std::move(certificate)));
  boost::asio::post(tcp_->context(), [thread = tcp_.get(), listener] {
    thread->OnClosing([listener] { listener->Stop(); });
    listener->Begin();
  });
  return listener->address();
}

Status HttpServer::StartTcp() {
  if (tcp_ != nullptr) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(tcp_, HttpThread::Start(services_, {"hz-http", std::nullopt, false}));
  // A token that was looked up before this call is known to the thread's connection when it runs.
  services_->tokens->SetListener([thread = tcp_](const std::string& token) {
    boost::asio::post(thread->context(),
                      [thread = thread.get(), token] { thread->EndToken(token); });
  });
  return Status::Ok();
}

// ---------------------------------------------------------------------------------------------
// The end

bool HttpServer::Close() {
  if (!closed_) {
    closed_ = true;
    if (services_->tokens != nullptr) services_->tokens->SetListener(nullptr);
    for (const auto& [key, thread] : tenants_) thread->Close();
    if (tcp_ != nullptr) tcp_->Close();
  }
  const auto deadline = std::chrono::steady_clock::now() + services_->limits.close_within;
  do {
    ForgetClosed();
    if (tcp_ != nullptr && tcp_->closed()) tcp_.reset();
    if (tenants_.empty() && tcp_ == nullptr) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (std::chrono::steady_clock::now() < deadline);
  services_->gate.Close();
  return tenants_.empty() && tcp_ == nullptr;
}

size_t HttpServer::threads() const {
  return tenants_.size() + (tcp_ == nullptr ? 0 : 1);
}

}  // namespace harmonaize::daemon
