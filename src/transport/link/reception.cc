#include "src/transport/link/reception.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::transport {
namespace {

// Connections accepted at once, so that a flood of them does not keep the thread from those that
// have proved themselves.
constexpr int kAcceptsAtOnce = 16;

void SetOption(int socket, int level, int name, int value) {
  // An option that the kernel does not know costs speed or timely notice, not correctness.
  setsockopt(socket, level, name, &value, sizeof value);
}

Status ConnectError(int error_number, const NetworkAddress& remote) {
  return Unavailable("cannot connect to {}: {}", remote.ToString(), std::strerror(error_number));
}

bool IsNoWay(int error_number) {
  return error_number == EHOSTUNREACH || error_number == ENETUNREACH || error_number == ETIMEDOUT;
}

}  // namespace

void ApplySocketOptions(int socket, int family, const SocketOptions& options) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // Lost packets of a connection with little data are sent again at constant intervals. With
  // doubling intervals, a heartbeat that is lost four times would be three seconds late.
  SetOption(socket, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1);
  if (options.user_timeout_ms > 0) {
    SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(options.user_timeout_ms));
  }
  const std::string& algorithm = options.congestion_control;
  if (!algorithm.empty()) {
    setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, algorithm.data(),
               static_cast<socklen_t>(algorithm.size()));
  }
  if (options.traffic_class >= 0) {
    if (family == AF_INET) SetOption(socket, IPPROTO_IP, IP_TOS, options.traffic_class);
    if (family == AF_INET6) SetOption(socket, IPPROTO_IPV6, IPV6_TCLASS, options.traffic_class);
  }
}

bool ProvedConnection::Answer() {
  if (answer.empty()) return true;
  // The answer is short, and only a greeting was sent before, so there is room for it.
  const ssize_t sent = send(socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(answer.size());
}

class Reception::Listener final : public Poller::Handler {
 public:
  Listener(Reception* reception, FileDescriptor socket, const SocketOptions& options)
      : reception_(reception), socket_(std::move(socket)), options_(options) {}
  void OnReady(uint32_t) override { reception_->Accept(this); }
  int fd() const { return socket_.get(); }
  const SocketOptions& options() const { return options_; }

 private:
  Reception* reception_;
  FileDescriptor socket_;
  SocketOptions options_;
};

/// A connection in its handshake.
class Reception::Pending final : public Poller::Handler {
 public:
  Pending(Reception* reception, FileDescriptor socket, const NetworkAddress& remote,
          Handshake handshake, uint64_t cookie, uint64_t deadline_ns)
      : reception_(reception),
        socket_(std::move(socket)),
        remote_(remote),
        handshake_(std::move(handshake)),
        cookie_(cookie),
        deadline_ns_(deadline_ns),
        connecting_(cookie != 0) {}

  void OnReady(uint32_t events) override {
    if (connecting_ && !FinishConnect()) return;
    if (!Write()) return;
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !Read()) return;
    if (handshake_.done() && (accepted() || unsent_.empty())) return reception_->Finish(this);
    const uint32_t wanted = unsent_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
    reception_->poller_->Change(socket_.get(), wanted, this);
  }

  const NetworkAddress& remote() const { return remote_; }
  uint64_t cookie() const { return cookie_; }
  uint64_t deadline_ns() const { return deadline_ns_; }
  int fd() const { return socket_.get(); }
  void Close() { socket_.Reset(); }
  bool connecting() const { return connecting_; }

  ProvedConnection TakeProved() {
    return ProvedConnection{std::move(socket_),  remote_, handshake_.role(), handshake_.ours(),
                            handshake_.theirs(), cookie_, std::move(unsent_)};
  }

 private:
  bool accepted() const { return handshake_.role() == Handshake::Role::kAcceptor; }

  // Each of these returns whether the connection goes on.
  bool FinishConnect() {
    int error_number = 0;
    socklen_t length = sizeof error_number;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error_number, &length);
    connecting_ = false;
    if (error_number == 0) return true;
    reception_->Drop(this, ConnectError(error_number, remote_), IsNoWay(error_number));
    return false;
  }

  bool Write() {
    const std::vector<std::byte> more = handshake_.TakeOutput();
    unsent_.insert(unsent_.end(), more.begin(), more.end());
    // The acceptor's last bytes, its proof, are sent by the owner.
    if (unsent_.empty() || (accepted() && handshake_.done())) return true;
    const ssize_t sent = send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR || Lose(std::strerror(errno));
    unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
    return true;
  }

  bool Read() {
    std::array<std::byte, kGreetingBytes> bytes;
    while (handshake_.Wanted() > 0) {
      const size_t wanted = std::min(handshake_.Wanted(), bytes.size());
      const ssize_t got = recv(socket_.get(), bytes.data(), wanted, 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (got < 0) return Lose(std::strerror(errno));
      if (got == 0) return Lose("it closed the connection");
      const Status status = handshake_.Consume(std::span(bytes).first(static_cast<size_t>(got)));
      if (!status.ok()) {
        SendLast();
        reception_->Drop(this, Status(status.code(),
                                      fmt::format("{}: {}", remote_.ToString(), status.message())));
        return false;
      }
      if (!Write()) return false;
    }
    return true;
  }

  // A refused connection's greeting is short, and nothing was sent before, so there is room for it.
  void SendLast() {
    const std::vector<std::byte> last = handshake_.TakeOutput();
    if (last.empty()) return;
    static_cast<void>(send(socket_.get(), last.data(), last.size(), MSG_NOSIGNAL));
  }

  bool Lose(const char* why) {
    const bool at_proof = cookie_ != 0 && handshake_.awaits_proof();
    reception_->Drop(
        this, RemoteError("{}: {}{}", remote_.ToString(), why,
                          at_proof ? " at the proof of the cluster key; most likely it has another "
                                     "key than this daemon, or one of both has none"
                                   : " before it had proved the cluster key"));
    return false;
  }

  Reception* reception_;
  FileDescriptor socket_;
  NetworkAddress remote_;
  Handshake handshake_;
  std::vector<std::byte> unsent_;
  uint64_t cookie_;
  uint64_t deadline_ns_;
  bool connecting_;
};

Reception::Reception(Poller* poller, Owner* owner, const ClusterKey* key,
                     const InstanceId& instance, const ReceptionLimits& limits)
    : poller_(poller), owner_(owner), key_(key), instance_(instance), limits_(limits) {}

Reception::~Reception() {
  for (const auto& listener : listeners_) poller_->Remove(listener->fd(), listener.get());
  for (const auto& pending : pending_) poller_->Remove(pending->fd(), pending.get());
}

Status Reception::AcceptAt(FileDescriptor listening, const SocketOptions& options) {
  auto listener = std::make_unique<Listener>(this, std::move(listening), options);
  HZ_RETURN_IF_ERROR(poller_->Add(listener->fd(), EPOLLIN, listener.get()));
  listeners_.push_back(std::move(listener));
  return Status::Ok();
}

void Reception::Connect(const NetworkAddress& remote, const SocketOptions& options,
                        const Greeting& greeting, uint64_t cookie, uint64_t timeout_ns) {
  const auto fail = [&](Status reason, bool no_way = false) {
    failed_.push_back({cookie, std::move(reason), no_way});
  };
  FileDescriptor connecting(socket(remote.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!connecting.valid()) return fail(ErrnoError(errno, "cannot make a socket"));
  ApplySocketOptions(connecting.get(), remote.family(), options);
  if (!options.bind.empty()) {
    SetOption(connecting.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    SetOption(connecting.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, options.bind.port() == 0);
    if (bind(connecting.get(), options.bind.get(), options.bind.length()) != 0) {
      return fail(ErrnoError(errno, fmt::format("cannot bind to {}", options.bind.ToString())));
    }
  }
  if (connect(connecting.get(), remote.get(), remote.length()) != 0 && errno != EINPROGRESS) {
    const int why = errno;
    return fail(ConnectError(why, remote), IsNoWay(why));
  }
  Greeting ours = greeting;
  ours.versions = limits_.versions;
  auto pending = std::make_unique<Pending>(this, std::move(connecting), remote,
                                           Handshake(Handshake::Role::kInitiator, key_, ours),
                                           cookie, MonotonicNanoseconds() + timeout_ns);
  const Status watched = poller_->Add(pending->fd(), EPOLLOUT, pending.get());
  if (!watched.ok()) return fail(watched);
  pending_.push_back(std::move(pending));
}

void Reception::Forget(uint64_t cookie) {
  std::erase_if(failed_, [cookie](const Failure& failure) { return failure.cookie == cookie; });
  const auto found = std::ranges::find_if(
      pending_, [cookie](const auto& pending) { return pending->cookie() == cookie; });
  if (found == pending_.end()) return;
  Pending* pending = found->get();
  Remove(pending);
  pending->Close();
}

void Reception::Accept(Listener* listener) {
  gone_.clear();
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    FileDescriptor socket(accept4(listener->fd(), reinterpret_cast<sockaddr*>(&from), &length,
                                  SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      // If descriptors run out, the oldest unproved connection gives up its own. If there is none,
      // later accepts in this row get the same error.
      if (i == 0 && (errno == EMFILE || errno == ENFILE)) MakeRoom(NetworkAddress());
      return;
    }
    OnAccepted(std::move(socket), NetworkAddress::From(reinterpret_cast<const sockaddr*>(&from)),
               listener->options());
  }
}

void Reception::OnAccepted(FileDescriptor socket, const NetworkAddress& remote,
                           const SocketOptions& options) {
  accepted_.fetch_add(1, std::memory_order_relaxed);
  MakeRoom(remote);
  ApplySocketOptions(socket.get(), remote.family(), options);
  Greeting greeting;
  greeting.instance = instance_;
  greeting.versions = limits_.versions;
  auto pending = std::make_unique<Pending>(this, std::move(socket), remote,
                                           Handshake(Handshake::Role::kAcceptor, key_, greeting), 0,
                                           MonotonicNanoseconds() + limits_.proof_timeout_ns);
  if (!poller_->Add(pending->fd(), EPOLLIN, pending.get()).ok()) return;
  pending_.push_back(std::move(pending));
}

/// Makes room for a connection from `remote`. An empty address asks to free one place, of any
/// address.
void Reception::MakeRoom(const NetworkAddress& remote) {
  Pending* oldest = nullptr;
  Pending* oldest_of_address = nullptr;
  size_t all = 0;
  size_t of_address = 0;
  for (const auto& pending : pending_) {
    if (pending->cookie() != 0) continue;
    ++all;
    if (oldest == nullptr) oldest = pending.get();
    if (!pending->remote().SameHost(remote)) continue;
    ++of_address;
    if (oldest_of_address == nullptr) oldest_of_address = pending.get();
  }
  Pending* leaves = of_address >= limits_.unproved_of_one_address ? oldest_of_address
                    : all >= limits_.unproved || remote.empty()   ? oldest
                                                                  : nullptr;
  if (leaves == nullptr) return;
  evicted_.fetch_add(1, std::memory_order_relaxed);
  Drop(leaves, RemoteError("{}: it held a connection open without a proof of the cluster key while "
                           "others waited",
                           leaves->remote().ToString()));
}

void Reception::Drop(Pending* pending, const Status& reason, bool no_way) {
  if (pending->cookie() != 0) {
    failed_.push_back({pending->cookie(), reason, no_way});
  } else {
    refused_.fetch_add(1, std::memory_order_relaxed);
    // Anybody can cause this at will, so it is no warning.
    Log(LogLevel::kDebug, kLogNet, "a connection was refused: {}", reason.message());
  }
  Remove(pending);
  pending->Close();
}

void Reception::Remove(Pending* pending) {
  poller_->Remove(pending->fd(), pending);
  const auto found =
      std::ranges::find_if(pending_, [pending](const auto& one) { return one.get() == pending; });
  if (found == pending_.end()) return;
  // The connection's code may be on the stack.
  gone_.splice(gone_.end(), pending_, found);
}

void Reception::Finish(Pending* pending) {
  Remove(pending);
  owner_->OnProved(pending->TakeProved());
}

void Reception::Tick(uint64_t now_ns) {
  for (auto next = pending_.begin(); next != pending_.end();) {
    Pending* pending = (next++)->get();
    if (pending->deadline_ns() > now_ns) continue;
    Drop(pending,
         Unavailable(
             "{}: {} in time", pending->remote().ToString(),
             pending->connecting() ? "it did not answer" : "it did not prove the cluster key"),
         /*no_way=*/true);
  }
  gone_.clear();
  std::vector<Failure> failed;
  failed.swap(failed_);
  for (const Failure& failure : failed) {
    owner_->OnConnectFailed(failure.cookie, failure.reason, failure.no_way);
  }
}

}  // namespace harmonaize::transport
