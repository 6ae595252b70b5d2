#include "daemon/probing/probe_listener.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "daemon/probing/probe_processors.h"
#include "daemon/runtime/guarded.h"

namespace harmonaize::daemon {
namespace {

/// Connections that may wait to be accepted at each NIC.
constexpr int kBacklog = 1024;
/// Interval, in milliseconds, of looks for guests who took too long.
constexpr int kLookMilliseconds = 100;
/// Longest time, in seconds, until a guest's hello is complete.
constexpr std::chrono::seconds kHelloPatience(2);
/// Most guests who have shown no token: with one more the oldest goes.
constexpr size_t kMostStrangers = 256;
/// Time, in milliseconds, for which the next message is awaited awake: the time of a wake-up would
/// hide that of a switch.
constexpr std::chrono::milliseconds kStayAwake(1);

}  // namespace

Result<std::unique_ptr<ProbeListener>> ProbeListener::Open(const std::vector<ProbedNic>& nics,
                                                           const ProbeToken& token,
                                                           std::chrono::milliseconds idle_limit,
                                                           Calls calls) {
  std::unique_ptr<ProbeListener> opened(new ProbeListener(token, idle_limit, std::move(calls)));
  for (const ProbedNic& nic : nics) {
    HZ_ASSIGN_OR_RETURN(TcpListener listener, ListenOn(nic.address, kBacklog));
    opened->nics_.push_back({nic.device, nic.address, listener.port});
    opened->listeners_.push_back(std::move(listener.fd));
  }
  opened->wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!opened->wake_.valid()) return ErrnoError(errno, "cannot make an eventfd");
  opened->touched_ = ProbeClock::now();
  opened->thread_ = std::thread([self = opened.get()] { self->Run(); });
  return opened;
}

ProbeListener::~ProbeListener() {
  stop_ = true;
  if (!thread_.joinable()) return;
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void ProbeListener::Touch() {
  const std::lock_guard lock(mutex_);
  touched_ = ProbeClock::now();
}

void ProbeListener::Count(const ProbeRunMessage& run) {
  {
    const std::lock_guard lock(mutex_);
    runs_.push_back(run);
  }
  eventfd_write(wake_.get(), 1);
}

void ProbeListener::Run() {
  bool told = false;
  while (!stop_) {
    GuardedAndLogged("a look at the guests of a probe", [&] {
      WaitForEvents();
      DropLateGuests();
      while (const std::optional<ProbeRunMessage> run = TakeRun()) CountNow(*run);
      if (!told && Expired()) {
        told = true;
        calls_.expired();
      }
    });
  }
}

bool ProbeListener::Expired() {
  const std::lock_guard lock(mutex_);
  return ProbeClock::now() - touched_ > idle_limit_;
}

std::optional<ProbeRunMessage> ProbeListener::TakeRun() {
  const std::lock_guard lock(mutex_);
  if (runs_.empty() || stop_) return std::nullopt;
  ProbeRunMessage run = runs_.front();
  runs_.erase(runs_.begin());
  return run;
}

void ProbeListener::WaitForEvents() {
  std::vector<pollfd> events = {{wake_.get(), POLLIN, 0}};
  for (const FileDescriptor& listener : listeners_) events.push_back({listener.get(), POLLIN, 0});
  std::vector<std::list<Guest>::iterator> served;
  for (auto guest = guests_.begin(); guest != guests_.end(); ++guest) {
    // A connection of a set says nothing before its time.
    if (guest->hello && guest->hello->set != 0) continue;
    events.push_back({guest->socket.get(), POLLIN, 0});
    served.push_back(guest);
  }
  if (::poll(events.data(), events.size(), kLookMilliseconds) <= 0) return;
  eventfd_t rung = 0;
  if (events[0].revents != 0) eventfd_read(wake_.get(), &rung);
  const size_t first = 1 + listeners_.size();
  for (size_t i = 0; i < served.size(); ++i) {
    if (events[first + i].revents != 0 && !Serve(&*served[i])) guests_.erase(served[i]);
  }
  for (size_t i = 0; i < listeners_.size(); ++i) {
    if (events[1 + i].revents != 0) Accept(listeners_[i].get());
  }
}

void ProbeListener::Accept(int listener) {
  for (;;) {
    FileDescriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    guests_.push_back({std::move(socket), ProbeClock::now(), {}, std::nullopt});
    Guest* const guest = &guests_.back();
    // The guest's hello is often there already.
    if (!Serve(guest)) guests_.pop_back();
  }
}

void ProbeListener::DropLateGuests() {
  const auto now = ProbeClock::now();
  std::erase_if(guests_, [&](const Guest& guest) {
    return !guest.hello && now - guest.came > kHelloPatience;
  });
  auto strangers = static_cast<size_t>(
      std::count_if(guests_.begin(), guests_.end(), [](const Guest& one) { return !one.hello; }));
  for (auto guest = guests_.begin(); strangers > kMostStrangers && guest != guests_.end();) {
    const bool goes = !guest->hello;
    guest = goes ? guests_.erase(guest) : std::next(guest);
    if (goes) --strangers;
  }
}

bool ProbeListener::Serve(Guest* guest) {
  return guest->hello ? SendBack(guest) : Greet(guest);
}

bool ProbeListener::Greet(Guest* guest) {
  std::array<std::byte, kProbeHelloBytes> bytes;
  const size_t wanted = bytes.size() - guest->said.size();
  const ssize_t got = ::recv(guest->socket.get(), bytes.data(), wanted, MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  guest->said.insert(guest->said.end(), bytes.begin(), bytes.begin() + got);
  if (guest->said.size() < bytes.size()) return true;
  std::copy(guest->said.begin(), guest->said.end(), bytes.begin());
  guest->hello = DecodeProbeHello(bytes, token_);
  return guest->hello && ::send(guest->socket.get(), &kProbeWelcome, 1, MSG_NOSIGNAL) == 1;
}

bool ProbeListener::SendBack(Guest* guest) {
  VisitProcessors processors;
  char message[kProbePingBytes];
  if (::recv(guest->socket.get(), message, 1, MSG_DONTWAIT | MSG_PEEK) == 1) {
    processors.Go(static_cast<uint8_t>(message[0]), kOtherProbePlaces);
  }
  auto last = ProbeClock::now();
  while (!stop_ && ProbeClock::now() - last < kStayAwake) {
    const ssize_t got = ::recv(guest->socket.get(), message, sizeof(message), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (got < 0) {
      ::sched_yield();
      continue;
    }
    if (::send(guest->socket.get(), message, static_cast<size_t>(got), MSG_NOSIGNAL) != got) {
      return false;
    }
    last = ProbeClock::now();
  }
  return true;
}

void ProbeListener::CountNow(const ProbeRunMessage& run) {
  const auto start = After(ProbeClock::now(), run.delay);
  std::list<Guest> counted;
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const auto next = std::next(guest);
    if (guest->hello && guest->hello->set == run.set) {
      counted.splice(counted.end(), guests_, guest);
    }
    guest = next;
  }
  std::vector<int> sockets;
  for (const Guest& guest : counted) sockets.push_back(guest.socket.get());
  const std::vector<int64_t> bytes = CountUntil(sockets, After(start, run.seconds * kProbeWarmUp),
                                                After(start, run.seconds), stop_);
  std::map<uint32_t, int64_t> by_transfer;
  size_t place = 0;
  for (const Guest& guest : counted) by_transfer[guest.hello->transfer] += bytes[place++];
  ProbeResultMessage result{.probe = run.probe, .step = run.step};
  for (const auto& [transfer, count] : by_transfer) {
    result.counts.push_back({static_cast<int>(transfer), count});
  }
  if (!stop_) calls_.report(std::move(result));
}

}  // namespace harmonaize::daemon
