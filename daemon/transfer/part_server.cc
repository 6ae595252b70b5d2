#include "daemon/transfer/part_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/read_whole.h"

namespace harmonaize::daemon {
namespace {

/// Most connections with a ticket at a time. A few fill a link; the others are between two ranges.
/// One tenant gets half of them, which are 16 hosts that read the parts of 8 ranks.
constexpr size_t kMostSeated = 256;
/// Most connections that have not proved the key, of all hosts and of one. The oldest makes room,
/// so that strangers on other hosts keep no daemon out.
constexpr size_t kMostStrangers = 64;
constexpr size_t kMostStrangersOfHost = 16;
/// Most connections, and so threads: those above, and some that have just proved the key.
constexpr size_t kMostGuests = kMostSeated + 2 * kMostStrangers;
/// Time, in seconds, in which a connection proves the key. Anybody on the network may connect.
constexpr int kProofSeconds = 2;
/// Time, in nanoseconds, for which an offer holds that no connection makes use of.
constexpr uint64_t kOfferNs = 60'000'000'000;
/// Most offers of one tenant that have not been taken up.
constexpr int64_t kMostOffers = 4096;
/// Bytes of a connection that wait in the kernel: what is there goes ahead of tenants' traffic.
constexpr int kSendBufferBytes = 512 << 10;

template <typename Value>
std::span<const std::byte> BytesOf(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Result<PartServer::Offer> PartServer::Add(TransferSource source) {
  const std::lock_guard lock(mutex_);
  HZ_RETURN_IF_ERROR(Listen());
  const uint64_t now_ns = MonotonicNanoseconds();
  std::erase_if(offered_, [&](const auto& entry) { return entry.second.until_ns < now_ns; });
  const auto of_tenant = std::count_if(offered_.begin(), offered_.end(), [&](const auto& entry) {
    return entry.second.source->tenant == source.tenant;
  });
  if (of_tenant >= kMostOffers) {
    return InvalidUsage("{} parts of checkpoints wait for being read by other hosts", of_tenant);
  }
  Offer offer = {.port = port_};
  HZ_RETURN_IF_ERROR(FillRandom(offer.ticket));
  offered_[offer.ticket] = {.source = std::make_shared<const TransferSource>(std::move(source)),
                            .until_ns = now_ns + kOfferNs};
  return offer;
}

Status PartServer::Listen() {
  if (port_ != 0) return Status::Ok();
  transport::NetworkAddress address = services_.address;
  address.set_port(0);
  FileDescriptor listener(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens = listener.valid() &&
                       bind(listener.get(), address.get(), address.length()) == 0 &&
                       listen(listener.get(), kMostGuests) == 0;
  if (!listens) return ErrnoError(errno, "cannot listen at " + address.HostText());
  stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.valid()) return ErrnoError(errno, "cannot make an eventfd");
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return ErrnoError(errno, "cannot find out the port");
  }
  listener_ = std::move(listener);
  try {
    thread_ = std::thread([this] { AcceptAll(); });
  } catch (const std::system_error& error) {
    return SystemError("cannot start a thread: {}", error.what());
  }
  port_ = transport::NetworkAddress::From(reinterpret_cast<sockaddr*>(&bound)).port();
  return Status::Ok();
}

PartServer::~PartServer() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_relaxed);
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof one) < 0) {
    Log(LogLevel::kWarning, kLogInit, "a thread of transfers may end late");
  }
  thread_.join();
  for (Guest& guest : guests_) {
    {
      const std::lock_guard lock(guest.mutex);
      guest.is_cut = true;
      shutdown(guest.unproven.get(), SHUT_RDWR);
      if (guest.socket != nullptr) guest.socket->Cut();
    }
    guest.thread.join();
  }
}

// ---------------------------------------------------------------------------------------------
// The thread that accepts

void PartServer::AcceptAll() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    pollfd waited[] = {{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                       {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    // Ended threads are joined once in a while.
    poll(waited, 2, 1000);
    JoinEnded();
    if ((waited[0].revents & POLLIN) != 0) AcceptOne();
  }
}

void PartServer::JoinEnded() {
  guests_.remove_if([](Guest& guest) {
    if (!guest.has_ended.load(std::memory_order_acquire)) return false;
    guest.thread.join();
    return true;
  });
}

/// Cuts the oldest connection that has not proved the key where there are as many as may be from
/// this host, or from all.
void PartServer::MakeRoomForStranger(const std::string& host) {
  size_t of_host = 0;
  size_t of_all = 0;
  Guest* oldest_of_host = nullptr;
  Guest* oldest = nullptr;
  for (Guest& guest : guests_) {
    const std::lock_guard lock(guest.mutex);
    if (!guest.unproven.valid()) continue;
    if (of_all++ == 0) oldest = &guest;
    if (guest.host == host && of_host++ == 0) oldest_of_host = &guest;
  }
  if (of_host >= kMostStrangersOfHost) oldest = oldest_of_host;
  if (of_host < kMostStrangersOfHost && of_all < kMostStrangers) return;
  const std::lock_guard lock(oldest->mutex);
  shutdown(oldest->unproven.get(), SHUT_RDWR);
}

void PartServer::AcceptOne() {
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  FileDescriptor socket(
      accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC));
  if (!socket.valid()) return;
  const std::string host =
      transport::NetworkAddress::From(reinterpret_cast<sockaddr*>(&from)).HostText();
  MakeRoomForStranger(host);
  // Closed at once: the other daemon tries again, or does without.
  if (guests_.size() >= kMostGuests) return;
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
  Guest& guest = guests_.emplace_back();
  guest.host = host;
  guest.unproven = FileDescriptor(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  try {
    guest.thread =
        std::thread([this, &guest, shared = std::make_shared<FileDescriptor>(std::move(socket))] {
          Serve(&guest, std::move(*shared));
          guest.has_ended.store(true, std::memory_order_release);
        });
  } catch (const std::system_error& error) {
    guests_.pop_back();
    Log(LogLevel::kWarning, kLogInit, "cannot start a thread of transfers: {}", error.what());
  }
}

// ---------------------------------------------------------------------------------------------
// A thread for each connection

void PartServer::Serve(Guest* guest, FileDescriptor socket) {
  try {
    Result<std::unique_ptr<SecureSocket>> accepted =
        SecureSocket::Accept(std::move(socket), services_.settings, kProofSeconds);
    {
      const std::lock_guard lock(guest->mutex);
      guest->unproven.Reset();
      if (!accepted.ok() || guest->is_cut) return;
      guest->socket = accepted->get();
    }
    ServeRequests(accepted->get());
    const std::lock_guard lock(guest->mutex);
    guest->socket = nullptr;
  } catch (const std::exception& exception) {
    Log(LogLevel::kWarning, kLogInit, "a transfer has ended: {}", exception.what());
    const std::lock_guard lock(guest->mutex);
    guest->socket = nullptr;
  }
}

/// The place of a connection among those with a ticket, from its first request on.
class PartServer::Seat {
 public:
  explicit Seat(PartServer* server) : server_(server) {}
  ~Seat() {
    if (!is_taken_) return;
    const std::lock_guard lock(server_->mutex_);
    --server_->all_seated_;
    const auto of_tenant = server_->seated_.find(tenant_);
    if (--of_tenant->second == 0) server_->seated_.erase(of_tenant);
  }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  /// Takes it. Returns false if the tenant would have more than are left then, as of all resources
  /// (Account).
  bool Take(uint32_t tenant) {
    const std::lock_guard lock(server_->mutex_);
    const auto of_tenant = server_->seated_.find(tenant);
    const size_t held = of_tenant == server_->seated_.end() ? 0 : of_tenant->second;
    if (held + 1 + server_->all_seated_ >= kMostSeated) return false;
    ++server_->seated_[tenant];
    ++server_->all_seated_;
    tenant_ = tenant;
    is_taken_ = true;
    return true;
  }

 private:
  PartServer* const server_;
  uint32_t tenant_ = 0;
  bool is_taken_ = false;
};

void PartServer::ServeRequests(SecureSocket* socket) {
  Seat seat(this);
  std::shared_ptr<const TransferSource> source;
  TransferTicket ticket{};
  for (;;) {
    TransferRequest request;
    if (!socket->Receive(std::as_writable_bytes(std::span(&request, 1))).ok()) return;
    if (request.magic != TransferRequest::kMagic) return;
    if (source == nullptr) {
      ticket = request.ticket;
      source = Find(ticket);
      // The other daemon tries again.
      if (source != nullptr && !seat.Take(source->tenant)) return;
    }
    const bool is_offered = source != nullptr && request.ticket == ticket &&
                            request.at <= source->bytes &&
                            request.bytes <= source->bytes - request.at;
    const Status served = is_offered ? ServeRange(*source, request, socket)
                                     : socket->Send(BytesOf(TransferAnswer::kRefused));
    if (!is_offered || !served.ok()) return;
  }
}

Status PartServer::ServeRange(const TransferSource& source, const TransferRequest& request,
                              SecureSocket* socket) {
  std::optional<IdleLink::Watch> watch;
  if (source.when_idle) watch.emplace(services_.idle_link);
  const bool is_void_before = source.is_void->load(std::memory_order_relaxed);
  HZ_RETURN_IF_ERROR(
      socket->Send(BytesOf(is_void_before ? TransferAnswer::kVoid : TransferAnswer::kGood)));
  if (is_void_before) return RemoteError("the part is void");
  std::vector<std::byte> piece(std::min<uint64_t>(kTransferPiece, request.bytes));
  for (uint64_t done = 0; done < request.bytes;) {
    if (source.when_idle) AwaitPause(source);
    if (stopping_.load(std::memory_order_relaxed)) return RemoteError("the daemon ends");
    // The rest would be for nothing, and others wait for the link. A further request is told.
    if (source.is_void->load(std::memory_order_relaxed)) return RemoteError("the part is void");
    const std::span<std::byte> bytes(piece.data(),
                                     std::min<uint64_t>(piece.size(), request.bytes - done));
    HZ_RETURN_IF_ERROR(
        ReadWholeAt(source.descriptor, request.at + done, bytes, "a checkpoint in memory"));
    HZ_RETURN_IF_ERROR(socket->Send(bytes));
    done += bytes.size();
  }
  // The rank writes after `is_void` was set. So if any of its new bytes were read above, it is seen
  // to be set here: acquire, behind a fence that keeps the reads before it.
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool is_void = source.is_void->load(std::memory_order_acquire);
  return socket->Send(BytesOf(is_void ? TransferAnswer::kVoid : TransferAnswer::kGood));
}

/// Waits until tenants' traffic pauses, for a while at most.
void PartServer::AwaitPause(const TransferSource& source) const {
  constexpr std::chrono::milliseconds kLookEvery{1};
  const uint64_t until_ns = MonotonicNanoseconds() + IdleLink::kLongestWaitNs;
  for (;;) {
    const uint64_t now_ns = MonotonicNanoseconds();
    const bool may_go = services_.idle_link->IsIdle(now_ns) || now_ns >= until_ns;
    if (may_go || stopping_.load(std::memory_order_relaxed) ||
        source.is_void->load(std::memory_order_relaxed)) {
      return;
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

std::shared_ptr<const TransferSource> PartServer::Find(const TransferTicket& ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = offered_.find(ticket);
  const uint64_t now_ns = MonotonicNanoseconds();
  if (found == offered_.end() || found->second.until_ns < now_ns) return nullptr;
  found->second.until_ns = now_ns + kOfferNs;
  return found->second.source;
}

}  // namespace harmonaize::daemon
