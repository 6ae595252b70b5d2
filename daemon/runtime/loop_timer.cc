#include "daemon/runtime/loop_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "daemon/runtime/event_loop.h"

namespace harmonaize::daemon {

Status LoopTimer::Start(std::chrono::nanoseconds every, std::function<void()> call) {
  if (running()) return Status::Ok();
  FileDescriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer.valid()) return ErrnoError(errno, "cannot make a timer");
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(every);
  const timespec time{.tv_sec = seconds.count(), .tv_nsec = (every - seconds).count()};
  const itimerspec times{.it_interval = time, .it_value = time};
  if (timerfd_settime(timer.get(), 0, &times, nullptr) != 0) {
    return ErrnoError(errno, "cannot set a timer");
  }
  const int fd = timer.get();
  HZ_RETURN_IF_ERROR(loop_->Watch(fd, [fd, call = std::move(call)] {
    uint64_t expirations = 0;
    if (read(fd, &expirations, sizeof expirations) >= 0) call();
  }));
  timer_ = std::move(timer);
  return Status::Ok();
}

void LoopTimer::Stop() {
  if (!timer_.valid()) return;
  loop_->Unwatch(timer_.get());
  timer_.Reset();
}

}  // namespace harmonaize::daemon
