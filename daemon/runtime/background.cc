#include "daemon/runtime/background.h"

#include <algorithm>
#include <utility>

#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"

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

void Background::Post(std::function<void()> posted, uint32_t tenant) {
  auto call = [posted = std::move(posted), caller = LogFor::Current()] {
    const LogFor log_for(caller);
    GuardedAndLogged("work in the background", posted);
  };
  {
    const std::lock_guard lock(mutex_);
    auto queue = std::find_if(queues_.begin(), queues_.end(),
                              [&](const Queue& one) { return one.tenant == tenant; });
    if (queue == queues_.end()) {
      Queue made{tenant, {}};
      made.calls.emplace_back(std::move(call));
      queues_.push_back(std::move(made));
    } else {
      queue->calls.emplace_back(std::move(call));
    }
  }
  posted_.notify_one();
}

// The tenant whose call is taken goes to the end of the turns.
std::function<void()> Background::TakeNext() {
  Queue& queue = queues_.front();
  std::function<void()> call = std::move(queue.calls.front());
  queue.calls.pop_front();
  if (queue.calls.empty()) {
    queues_.pop_front();
  } else {
    queues_.splice(queues_.end(), queues_, queues_.begin());
  }
  return call;
}

void Background::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [this] { return stopping_ || !queues_.empty(); });
    if (stopping_) return;
    const std::function<void()> call = TakeNext();
    lock.unlock();
    call();
    lock.lock();
  }
}

}  // namespace harmonaize::daemon
