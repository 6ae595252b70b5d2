#include "src/client/events/event_subscription.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "src/ipc/daemon_search.h"

namespace harmonaize {
namespace {

/// Longest wait, in milliseconds, for a daemon to agree to a subscription: it may be busy.
constexpr int kAgreesWithinMs = 10'000;
/// Pauses, in milliseconds, between attempts to connect again. The first is short, since a daemon
/// that is restarted is back soon.
constexpr int kFirstPauseMs = 50;
constexpr int kLongestPauseMs = 2'000;

using Clock = std::chrono::steady_clock;

void Append(std::string_view name, const std::string& value, std::string* target) {
  if (value.empty()) return;
  *target += '&';
  *target += name;
  *target += '=' + EncodeForUrl(value);
}

}  // namespace

std::string EventQuery::target() const {
  std::string target = "/v1/events?follow=true";
  Append("types", types, &target);
  Append("job", job, &target);
  Append("severity", severity, &target);
  Append("after", after, &target);
  if (after.empty() && from_start) target += "&from=start";
  return target;
}

Result<std::unique_ptr<EventSubscription>> EventSubscription::Open(std::vector<SocketPlace> places,
                                                                   EventQuery query) {
  std::unique_ptr<EventSubscription> subscription(
      new EventSubscription(std::move(places), std::move(query)));
  HZ_RETURN_IF_ERROR(subscription->Begin());
  return subscription;
}

EventSubscription::~EventSubscription() = default;

Status EventSubscription::Begin() {
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  timer_ = FileDescriptor(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll_.valid() || !timer_.valid()) return ErrnoError(errno, "cannot wait for events");
  epoll_event readable{.events = EPOLLIN, .data = {}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &readable) != 0) {
    return ErrnoError(errno, "cannot wait for events");
  }
  return Connect();
}

Status EventSubscription::Connect() {
  HZ_ASSIGN_OR_RETURN(FileDescriptor socket, FindDaemonHttp(places_));
  HZ_ASSIGN_OR_RETURN(stream_, HttpEventStream::Open(std::move(socket), {.target = query_.target()},
                                                     kAgreesWithinMs));
  epoll_event readable{.events = EPOLLIN, .data = {}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stream_->fd(), &readable) != 0) {
    return ErrnoError(errno, "cannot wait for events");
  }
  pause_ms_ = 0;
  return Status::Ok();
}

// The descriptor leaves the epoll set with its close.
void EventSubscription::GiveUpConnection() {
  stream_.reset();
  pause_ms_ = pause_ms_ == 0 ? kFirstPauseMs : std::min(2 * pause_ms_, kLongestPauseMs);
  itimerspec after{};
  after.it_value.tv_sec = pause_ms_ / 1000;
  after.it_value.tv_nsec = int64_t{pause_ms_ % 1000} * 1'000'000;
  timerfd_settime(timer_.get(), 0, &after, nullptr);
}

// Only a refusal is an error: whoever has connected once waits for the daemon to come back.
Status EventSubscription::ConnectAgain() {
  uint64_t expirations = 0;
  if (read(timer_.get(), &expirations, sizeof expirations) < 0) return Status::Ok();
  const Status connected = Connect();
  if (connected.ok() || connected.code() == Code::kInvalidArgument) return connected;
  GiveUpConnection();
  return Status::Ok();
}

Status EventSubscription::AwaitNews(int timeout_ms) {
  epoll_event event{};
  if (epoll_wait(epoll_.get(), &event, 1, timeout_ms) < 0 && errno != EINTR) {
    return ErrnoError(errno, "cannot wait for events");
  }
  return Status::Ok();
}

Result<std::optional<ServerSentEvent>> EventSubscription::Next(int timeout_ms) {
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
  while (true) {
    if (stream_ == nullptr) HZ_RETURN_IF_ERROR(ConnectAgain());
    if (stream_ != nullptr) {
      Result<std::optional<ServerSentEvent>> next = stream_->Next(0);
      if (next.ok() && next->has_value()) {
        if (!(*next)->id.empty()) query_.after = (*next)->id;
        // Without data it only says from where to go on.
        if ((*next)->data.empty()) continue;
        return next;
      }
      if (!next.ok()) GiveUpConnection();
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (timeout_ms >= 0 && left <= 0) return std::optional<ServerSentEvent>();
    HZ_RETURN_IF_ERROR(AwaitNews(timeout_ms < 0 ? -1 : static_cast<int>(left)));
  }
}

}  // namespace harmonaize
