#include "daemon/background.h"

#include <utility>

#include "daemon/guarded.h"

namespace harmonaize::daemon {

Background::Background() : thread_([this] { Run(); }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void Background::Post(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  posted_.notify_one();
}

void Background::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [this] { return stopping_ || !calls_.empty(); });
    if (stopping_) return;
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    GuardedAndLogged("work in the background", call);
    lock.lock();
  }
}

}  // namespace harmonaize::daemon
