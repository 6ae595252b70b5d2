#include "src/transport/link/front_door.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <utility>

#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::transport {
namespace {

/// Milliseconds between two checks for connections that take too long to prove the key: a fraction
/// of the time they are given.
constexpr int kTickMs = 100;
constexpr uint64_t kTickNs = uint64_t{kTickMs} * 1'000'000;

/// Microseconds for which the thread rests when it has run out of memory.
constexpr useconds_t kRestMicroseconds = 10'000;

void Raise(const FileDescriptor& event) {
  const uint64_t one = 1;
  // A write fails only after 2^64 - 2 unread ones.
  static_cast<void>(!write(event.get(), &one, sizeof one));
}

}  // namespace

FrontDoor::FrontDoor(Poller* poller, Reception::Owner* owner, const ClusterKey* key,
                     const InstanceId& instance, const ReceptionLimits& limits,
                     std::shared_ptr<ListeningSockets> sockets)
    : owners_poller_(poller),
      owner_(owner),
      key_(key),
      instance_(instance),
      limits_(limits),
      sockets_(sockets != nullptr ? std::move(sockets) : std::make_shared<ListeningSockets>()) {}

FrontDoor::~FrontDoor() {
  if (thread_.joinable()) {
    Raise(stop_);
    thread_.join();
  }
  if (news_.valid()) owners_poller_->Remove(news_.get(), this);
}

Result<NetworkAddress> FrontDoor::Listen(const NetworkAddress& address,
                                         const SocketOptions& options) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) HZ_RETURN_IF_ERROR(Start());
  // The options are set before the first connection: one that began with BBR keeps its timers for
  // good.
  HZ_ASSIGN_OR_RETURN(FileDescriptor listening, sockets_->Listen(address, [&](int socket) {
    ApplySocketOptions(socket, address.family(), options);
  }));
  const NetworkAddress bound = BoundAddress(listening.get());
  HZ_RETURN_IF_ERROR(reception_->AcceptAt(std::move(listening), options));
  return bound;
}

Status FrontDoor::Start() {
  HZ_ASSIGN_OR_RETURN(poller_, Poller::Create());
  reception_ = std::make_unique<Reception>(poller_.get(), static_cast<Reception::Owner*>(this),
                                           key_, instance_, limits_);
  if (!news_.valid()) {
    FileDescriptor news(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!news.valid() || !stop_.valid()) return ErrnoError(errno, "cannot make an event");
    HZ_RETURN_IF_ERROR(owners_poller_->Add(news.get(), EPOLLIN, this));
    news_ = std::move(news);
  }
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::exception& exception) {
    return SystemError("cannot start a thread that accepts connections: {}", exception.what());
  }
  return Status::Ok();
}

ReceptionCounters FrontDoor::counters() const {
  return reception_ == nullptr ? ReceptionCounters{} : reception_->counters();
}

// ---- The door's own thread ----

void FrontDoor::Run() {
  while (true) {
    pollfd stop{stop_.get(), POLLIN, 0};
    if (poll(&stop, 1, 0) > 0) return;
    WaitForEvents();
    // A connection for which memory runs out is lost, and nothing else.
    try {
      ServeOnce();
    } catch (const std::exception&) {
      usleep(kRestMicroseconds);
    }
  }
}

void FrontDoor::WaitForEvents() {
  std::array<pollfd, 2> events = {{{poller_->fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
  poll(events.data(), events.size(), has_unproved_ ? kTickMs : -1);
}

void FrontDoor::ServeOnce() {
  const std::lock_guard lock(mutex_);
  poller_->Poll();
  if (!just_proved_.empty()) HandOver();
  const uint64_t now_ns = MonotonicNanoseconds();
  if (reception_->busy() && now_ns >= next_tick_ns_) {
    reception_->Tick(now_ns);
    next_tick_ns_ = now_ns + kTickNs;
  }
  has_unproved_ = reception_->busy();
}

void FrontDoor::OnProved(ProvedConnection connection) {
  just_proved_.push_back(std::move(connection));
}

void FrontDoor::HandOver() {
  {
    const std::lock_guard lock(proved_mutex_);
    for (ProvedConnection& connection : just_proved_) proved_.push_back(std::move(connection));
  }
  just_proved_.clear();
  Raise(news_);
}

// ---- The owner's thread ----

void FrontDoor::OnReady(uint32_t) {
  uint64_t raised = 0;
  if (read(news_.get(), &raised, sizeof raised) < 0) return;
  std::vector<ProvedConnection> proved;
  {
    const std::lock_guard lock(proved_mutex_);
    proved.swap(proved_);
  }
  for (ProvedConnection& connection : proved) owner_->OnProved(std::move(connection));
}

}  // namespace harmonaize::transport
