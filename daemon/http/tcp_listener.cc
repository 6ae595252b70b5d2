#include "daemon/http/tcp_listener.h"

#include <errno.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "daemon/http/http_thread.h"
#include "daemon/runtime/guarded.h"
#include "src/base/log.h"
#include "src/transport/listening_sockets.h"

namespace harmonaize::daemon {
namespace {

using transport::NetworkAddress;

/// Most connections that are accepted before those that are there are served: few, so that a caller
/// whose token has arrived shows it before a flood's next connections come in.
constexpr int kAcceptsAtOnce = 4;

/// Time, in milliseconds, until the next try where descriptors have run out: the connections that
/// hold them end within seconds.
constexpr std::chrono::milliseconds kRestFor(100);

}  // namespace

TcpListener::TcpListener(HttpThread* thread, std::vector<std::string> names,
                         std::unique_ptr<TlsCertificate> certificate)
    : thread_(thread),
      names_(std::move(names)),
      certificate_(std::move(certificate)),
      socket_(thread->context()),
      rest_(thread->context()),
      look_(thread->context()) {
  Result<LoopbackPeers> peers = LoopbackPeers::Open();
  if (peers.ok()) peers_.emplace(std::move(*peers));
}

Result<std::shared_ptr<TcpListener>> TcpListener::Open(
    HttpThread* thread, FileDescriptor listening, std::vector<std::string> names,
    std::unique_ptr<TlsCertificate> certificate) {
  std::shared_ptr<TcpListener> listener(
      new TcpListener(thread, std::move(names), std::move(certificate)));
  listener->address_ = transport::BoundAddress(listening.get());
  boost::system::error_code error;
  listener->socket_.assign(listening.get(), error);
  if (error) {
    return SystemError("cannot listen at {}: {}", listener->address_.ToString(), error.message());
  }
  listening.Release();
  return listener;
}

void TcpListener::Begin() {
  Await();
  if (certificate_ != nullptr) LookAtCertificate();
}

void TcpListener::Stop() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  rest_.cancel();
  look_.cancel();
}

void TcpListener::Await() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (!error && self->socket_.is_open()) self->AcceptSome();
                     });
}

void TcpListener::AcceptSome() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    if (AcceptOne()) continue;
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) break;
    // Waiting on the socket would return at once, for ever.
    rest_.expires_after(kRestFor);
    rest_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error && self->socket_.is_open()) self->Await();
    });
    return;
  }
  Await();
}

bool TcpListener::AcceptOne() {
  sockaddr_storage remote{};
  socklen_t length = sizeof remote;
  FileDescriptor fd(accept4(socket_.native_handle(), reinterpret_cast<sockaddr*>(&remote), &length,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) return false;
  GuardedAndLogged("a new TCP connection", [&] {
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    HttpPeer peer;
    peer.where = {true, certificate_ != nullptr, names_};
    peer.where.names.push_back(transport::BoundAddress(fd.get()).HostText());
    const auto address = NetworkAddress::From(reinterpret_cast<const sockaddr*>(&remote));
    peer.address = KeyOf(address, transport::BoundAddress(fd.get()));
    thread_->Serve(&fd, std::move(peer),
                   certificate_ == nullptr ? nullptr : certificate_->context());
  });
  return true;
}

// Users of this host share its addresses, and would send away each other.
std::string TcpListener::KeyOf(const NetworkAddress& remote, const NetworkAddress& own) {
  const std::string address = AddressKey(remote.HostText());
  if (!peers_.has_value()) return address;
  // The kernel knows the sockets of this host, whichever of its addresses they have.
  const std::optional<uid_t> user = peers_->UserOf(remote, own);
  const bool is_of_this_host = remote.IsLoopback() || remote.SameHost(own);
  if (!user.has_value()) return is_of_this_host ? "a socket that nobody holds" : address;
  const std::optional<uid_t> owner = subordinate_ids_.OwnerOf(*user);
  return fmt::format("uid {}", owner.value_or(*user));
}

void TcpListener::LookAtCertificate() {
  look_.expires_after(thread_->services().limits.certificate_look);
  look_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || !self->socket_.is_open()) return;
    GuardedAndLogged("a look at the TLS certificate", [&] { self->certificate_->LookForChange(); });
    self->LookAtCertificate();
  });
}

}  // namespace harmonaize::daemon
