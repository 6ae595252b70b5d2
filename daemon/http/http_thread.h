#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/http/event_queue.h"
#include "daemon/http/http_connection.h"
#include "daemon/http/http_services.h"
#include "daemon/http/tcp_guests.h"
#include "daemon/quota/rate_table.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// A thread that serves connections: those of one tenant at Unix sockets, or all of TCP. The thread
/// is detached, because a tenant can keep its own one in the kernel for as long as it likes. The
/// thread owns its connections, and it alone closes them.
class HttpThread : public std::enable_shared_from_this<HttpThread> {
 public:
  struct Identity {
    std::string name;  ///< Of at most 15 bytes, for the kernel.
    /// The tenant that lines of the log are counted for; nullopt: the daemon itself.
    std::optional<TenantIdentity> tenant = {};
    /// Whether the thread ends by itself, some time after its last connection.
    bool ends_when_unused = false;
  };

  static Result<std::shared_ptr<HttpThread>> Start(std::shared_ptr<HttpServices> services,
                                                   Identity identity);
  HttpThread(const HttpThread&) = delete;
  HttpThread& operator=(const HttpThread&) = delete;

  /// Takes over a connection at a Unix socket. Returns false, and takes nothing, if the thread has
  /// ended or ends. Thread: any.
  bool Adopt(FileDescriptor* socket, HttpPeer* peer);
  /// Closes all connections and ends the thread, soon. Thread: any.
  void Close();
  /// Returns whether the thread has ended. Thread: any.
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  boost::asio::io_context& context() { return context_; }
  HttpServices& services() { return *services_; }

  // Thread: this one.

  /// Serves a connection. `tls`: as for ByteStream::Make.
  void Serve(FileDescriptor* socket, HttpPeer peer, ssl_ctx_st* tls);
  /// Forgets a connection that has closed.
  void Forget(uint64_t number) noexcept;
  /// Closes the connections that have shown this token last.
  void EndToken(const std::string& token);
  /// Tells whoever writes to a stream that it has ended.
  void EndStream(const std::shared_ptr<EventQueue>& queue) noexcept;
  RateTable& callers() { return callers_; }
  RateTable& constants() { return constants_; }
  RateTable& strangers() { return strangers_; }
  TcpGuests& guests() { return guests_; }
  /// Runs `call` when the thread closes, before it ends: whoever keeps the context busy stops then.
  void OnClosing(std::function<void()> call) { on_closing_.push_back(std::move(call)); }

 private:
  HttpThread(std::shared_ptr<HttpServices> services, Identity identity);

  void Run();
  void CloseAll();
  void WaitUnused();
  void EndIfUnused();

  const std::shared_ptr<HttpServices> services_;
  const Identity identity_;
  boost::asio::io_context context_;
  std::atomic<bool> closed_{false};

  std::mutex mutex_;
  size_t arriving_ = 0;  // guarded by mutex_: connections that were adopted and have not come in
  bool ended_ = false;   // guarded by mutex_

  // Thread: this one.
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  boost::asio::steady_timer unused_;
  std::map<uint64_t, std::shared_ptr<HttpConnection>> connections_;
  uint64_t next_number_ = 1;
  RateTable callers_;
  RateTable constants_;
  RateTable strangers_;
  TcpGuests guests_;
  std::vector<std::function<void()>> on_closing_;
};

}  // namespace harmonaize::daemon
