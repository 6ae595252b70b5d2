#include "plugins/torch/source/progress.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "plugins/torch/source/signals_blocked.h"

namespace harmonaize_torch {
namespace {

using Clock = std::chrono::steady_clock;

// How often the thread looks while something is in flight: after an eighth of the time that has
// passed since something last ended or came, within these bounds. So an end is noticed late by an
// eighth of what the operation took, or a millisecond, and a long wait costs next to nothing.
constexpr std::chrono::microseconds kShortestPause{50};
constexpr std::chrono::microseconds kLongestPause{1000};

// How long the end of Python waits for each kind of thread. They hold each other up for
// milliseconds; one that is in a call for longer may never come back, such as a callback that waits
// for a dead rank.
constexpr std::chrono::milliseconds kStopPatience{1000};

thread_local bool t_is_own_thread = false;

std::mutex g_instance_mutex;
std::atomic<Progress*> g_instance{nullptr};

// The parent's is left alone in a child: its locks may be held by threads that are not there.
void ForgetInChild() {
  new (&g_instance_mutex) std::mutex;
  g_instance.store(nullptr, std::memory_order_relaxed);
}

}  // namespace

Progress& Progress::Get() {
  Progress* instance = g_instance.load(std::memory_order_acquire);
  if (instance != nullptr) return *instance;
  const std::lock_guard lock(g_instance_mutex);
  instance = g_instance.load(std::memory_order_relaxed);
  if (instance == nullptr) {
    static const int registered = pthread_atfork(nullptr, nullptr, ForgetInChild);
    static_cast<void>(registered);
    instance = new Progress;
    g_instance.store(instance, std::memory_order_release);
  }
  return *instance;
}

void Progress::Watch(const c10::intrusive_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  arrived_operations_.push_back(operation);
  StartThread();
  arrival_.notify_one();
}

void Progress::Watch(const std::shared_ptr<Communicator>& communicator) {
  const std::lock_guard lock(mutex_);
  arrived_communicators_.push_back(communicator);
  StartThread();
  arrival_.notify_one();
}

void Progress::StartThread() {
  if (started_ || stopping_) return;
  const SignalsBlocked blocked;
  std::thread thread([this] { Run(); });
  pthread_setname_np(thread.native_handle(), "hz-torch");
  thread.detach();
  started_ = true;
}

void Progress::Run() {
  SetOwnThread();
  while (TakeArrived()) {
    if (AdvanceAll()) last_news_ = Clock::now();
  }
  // What is in flight stays with this object, which is never destroyed.
  const std::lock_guard lock(mutex_);
  thread_has_ended_ = true;
  end_.notify_all();
}

// Pauses, and takes over what has come meanwhile. Returns false when the thread is to end.
bool Progress::TakeArrived() {
  std::unique_lock lock(mutex_);
  const auto arrived = [this] {
    return stopping_ || !arrived_operations_.empty() || !arrived_communicators_.empty();
  };
  if (operations_.empty() && communicators_.empty()) {
    arrival_.wait(lock, arrived);
  } else {
    const auto pause =
        std::chrono::duration_cast<std::chrono::microseconds>((Clock::now() - last_news_) / 8);
    arrival_.wait_for(lock, std::clamp(pause, kShortestPause, kLongestPause), arrived);
  }
  if (arrived()) last_news_ = Clock::now();
  operations_.insert(operations_.end(), arrived_operations_.begin(), arrived_operations_.end());
  for (const auto& one : arrived_communicators_) {
    if (std::find(communicators_.begin(), communicators_.end(), one) == communicators_.end()) {
      communicators_.push_back(one);
    }
  }
  arrived_operations_.clear();
  arrived_communicators_.clear();
  return !stopping_;
}

bool Progress::IsOwnThread() {
  return t_is_own_thread;
}

void Progress::SetOwnThread() {
  t_is_own_thread = true;
}

void Progress::Stop() {
  errands_.Stop(kStopPatience);
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    arrival_.notify_one();
    if (started_) end_.wait_for(lock, kStopPatience, [this] { return thread_has_ended_; });
  }
  completions_.Stop(kStopPatience);
  is_stopped_.store(true, std::memory_order_release);
}

// Returns whether something ended. What ended is released here, without the lock: its last tensors
// may ask for Python's lock.
bool Progress::AdvanceAll() {
  const auto now = Clock::now();
  const size_t before = operations_.size() + communicators_.size();
  communicators_.erase(std::remove_if(communicators_.begin(), communicators_.end(),
                                      [](const auto& one) { return one->Advance(); }),
                       communicators_.end());
  operations_.erase(std::remove_if(operations_.begin(), operations_.end(),
                                   [now](const auto& one) { return one->Advance(now); }),
                    operations_.end());
  return operations_.size() + communicators_.size() != before;
}

}  // namespace harmonaize_torch
