#include "daemon/runtime/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "daemon/runtime/guarded.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {

Result<std::unique_ptr<EventLoop>> EventLoop::Create() {
  std::unique_ptr<EventLoop> loop(new EventLoop());
  loop->epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  loop->wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->epoll_.valid() || !loop->wake_.valid()) {
    return ErrnoError(errno, "cannot make an event loop");
  }
  // The handler has nothing to do: the owner of the loop runs posted calls after each Wait.
  HZ_RETURN_IF_ERROR(loop->WatchBell(loop->wake_.get(), [] {}));
  return loop;
}

Status EventLoop::Watch(int fd, std::function<void()> on_ready) {
  return Add(fd, EPOLLIN | EPOLLRDHUP, std::move(on_ready));
}

// Edge-triggered: every write to an eventfd is an edge, whatever its counter holds. The counter
// only grows then; it is full after 2^64 rings.
Status EventLoop::WatchBell(int fd, std::function<void()> on_ring) {
  return Add(fd, EPOLLIN | EPOLLET, std::move(on_ring));
}

Status EventLoop::Add(int fd, uint32_t events, std::function<void()> on_ready) {
  epoll_event event{};
  event.events = events;
  const uint32_t ticket = next_ticket_++;
  event.data.u64 = MarkOf(fd, ticket);
  auto handler = std::make_shared<std::function<void()>>(std::move(on_ready));
  // The steps that may throw come first: a descriptor that is watched without a handler would be
  // ready forever.
  Watched& watched = watches_[fd];
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const int why = errno;
    if (watched.on_ready == nullptr) watches_.erase(fd);
    return ErrnoError(why, "cannot watch a descriptor");
  }
  watched = {ticket, events, std::move(handler)};
  return Status::Ok();
}

void EventLoop::Unwatch(int fd) {
  if (watches_.erase(fd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::SetReading(int fd, bool reading) {
  const auto found = watches_.find(fd);
  if (found == watches_.end()) return;
  Watched& watched = found->second;
  const uint32_t events = reading ? watched.events | EPOLLIN : watched.events & ~EPOLLIN;
  if (events == watched.events) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = MarkOf(fd, watched.ticket);
  // The descriptor is watched, so the kernel has no reason to refuse.
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) watched.events = events;
}

void EventLoop::Post(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(call));
    has_posted_.store(true, std::memory_order_seq_cst);
  }
  Wake();
}

void EventLoop::Wake() {
  const uint64_t one = 1;
  // The write fails only when the counter is full, and then the loop wakes anyway.
  if (write(wake_.get(), &one, sizeof one) < 0) return;
}

bool EventLoop::RunPosted(uint64_t budget_ns) {
  if (!HasPosted()) return false;
  const uint64_t begun_ns = MonotonicNanoseconds();
  size_t left = 0;  // calls posted from now on wait for the next RunPosted
  {
    const std::lock_guard lock(mutex_);
    left = posted_.size();
  }
  do {
    GuardedAndLogged("a posted call", TakePosted());
  } while (--left > 0 && MonotonicNanoseconds() - begun_ns < budget_ns);
  return true;
}

std::function<void()> EventLoop::TakePosted() {
  const std::lock_guard lock(mutex_);
  std::function<void()> call = std::move(posted_.front());
  posted_.pop_front();
  has_posted_.store(!posted_.empty(), std::memory_order_seq_cst);
  return call;
}

void EventLoop::Wait(int timeout_ms) {
  std::array<epoll_event, 64> events;
  const int count =
      epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < count; ++i) {
    const uint64_t data = events[static_cast<size_t>(i)].data.u64;
    const auto found = watches_.find(static_cast<int>(static_cast<uint32_t>(data)));
    // An earlier handler of this round may have closed the descriptor, and another may have been
    // opened under its number since.
    if (found == watches_.end() || found->second.ticket != data >> 32) continue;
    const std::shared_ptr<std::function<void()>> handler = found->second.on_ready;
    GuardedAndLogged("the handler of a descriptor", *handler);
  }
}

}  // namespace harmonaize::daemon
