#include "daemon/http/http_thread.h"

#include <pthread.h>

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/post.hpp>

#include "daemon/http/pending_exchange.h"
#include "daemon/runtime/free_memory.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/log.h"

namespace harmonaize::daemon {

HttpThread::HttpThread(std::shared_ptr<HttpServices> services, Identity identity)
    : services_(std::move(services)),
      identity_(std::move(identity)),
      context_(1),
      work_(context_.get_executor()),
      unused_(context_),
      callers_(services_->limits.caller_requests),
      constants_(services_->limits.constant_requests),
      strangers_(services_->limits.stranger_requests),
      guests_(services_->limits) {}

Result<std::shared_ptr<HttpThread>> HttpThread::Start(std::shared_ptr<HttpServices> services,
                                                      Identity identity) {
  std::shared_ptr<HttpThread> thread(new HttpThread(std::move(services), std::move(identity)));
  try {
    std::thread([thread] { thread->Run(); }).detach();
  } catch (const std::system_error& error) {
    return SystemError("cannot start a thread: {}", error.what());
  }
  return thread;
}

void HttpThread::Run() {
  pthread_setname_np(pthread_self(), identity_.name.c_str());
  const LogFor log_for(identity_.tenant);
  // An exception that a handler lets go ends Asio's run, and the others run all the same.
  for (bool running = true; running;) {
    GuardedAndLogged("an HTTP thread's turn", [&] {
      context_.run();
      running = false;
    });
  }
  connections_.clear();
  ReturnFreeMemory();
  closed_.store(true, std::memory_order_release);
}

bool HttpThread::Adopt(FileDescriptor* socket, HttpPeer* peer) {
  struct Arrival {
    FileDescriptor socket;
    HttpPeer peer;
  };
  auto arrival = std::make_shared<Arrival>();
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  // Nothing is taken before the call is posted, because posting it may fail.
  boost::asio::post(context_, [this, arrival] {
    {
      const std::lock_guard arrived(mutex_);
      --arriving_;
    }
    GuardedAndLogged("a new HTTP connection",
                     [&] { Serve(&arrival->socket, std::move(arrival->peer), nullptr); });
    // A socket that was refused closes here, on its tenant's thread.
    arrival->socket.Reset();
    if (connections_.empty()) WaitUnused();
  });
  ++arriving_;
  arrival->socket = std::move(*socket);
  arrival->peer = std::move(*peer);
  return true;
}

void HttpThread::Serve(FileDescriptor* socket, HttpPeer peer, ssl_ctx_st* tls) {
  Result<std::shared_ptr<ByteStream>> stream = ByteStream::Make(&context_, socket, tls);
  if (!stream.ok()) {
    return Log(LogLevel::kWarning, kLogInit, "an HTTP connection was dropped: {}",
               stream.status().message());
  }
  const uint64_t number = next_number_++;
  std::optional<uint64_t> leaves;
  if (peer.where.is_tcp) {
    const TcpGuests::Entrance entrance =
        guests_.Enter(number, peer.address, std::chrono::steady_clock::now());
    if (!entrance.admitted) return;
    leaves = entrance.leaves;
  }
  auto connection =
      std::make_shared<HttpConnection>(this, number, std::move(*stream), std::move(peer));
  connections_[number] = connection;
  if (leaves.has_value()) {
    const auto found = connections_.find(*leaves);
    if (found != connections_.end()) std::shared_ptr(found->second)->Close();
  }
  connection->Start();
}

void HttpThread::Forget(uint64_t number) noexcept {
  guests_.Leave(number);
  connections_.erase(number);
  if (connections_.empty() && work_.has_value()) {
    GuardedAndLogged("the end of an HTTP thread", [this] { WaitUnused(); });
  }
}

void HttpThread::WaitUnused() {
  if (!identity_.ends_when_unused) return;
  unused_.expires_after(services_->limits.thread_lingers);
  unused_.async_wait([this](const boost::system::error_code& error) {
    if (!error) EndIfUnused();
  });
}

void HttpThread::EndIfUnused() {
  if (!connections_.empty()) return;
  const std::lock_guard lock(mutex_);
  if (arriving_ > 0) return;
  ended_ = true;
  work_.reset();
}

void HttpThread::EndToken(const std::string& token) {
  for (const uint64_t number : guests_.WithToken(token)) {
    const auto found = connections_.find(number);
    if (found != connections_.end()) std::shared_ptr(found->second)->Close();
  }
}

void HttpThread::EndStream(const std::shared_ptr<EventQueue>& queue) noexcept {
  if (!queue->Finish() || !queue->news()) return;
  GuardedAndLogged("the news of a stream's end",
                   [&] { services_->gate.Enter([&](HttpHandler&) { queue->news()(true); }); });
}

void HttpThread::Close() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
  }
  boost::asio::post(context_, [this] { CloseAll(); });
}

void HttpThread::CloseAll() {
  for (const auto& call : on_closing_) GuardedAndLogged("the end of an HTTP thread", call);
  while (!connections_.empty()) std::shared_ptr(connections_.begin()->second)->Close();
  unused_.cancel();
  work_.reset();
}

}  // namespace harmonaize::daemon
