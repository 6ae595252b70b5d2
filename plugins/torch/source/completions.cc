#include "plugins/torch/source/completions.h"

#include <pthread.h>

#include <thread>
#include <utility>

#include "plugins/torch/source/signals_blocked.h"

namespace harmonaize_torch {
namespace {

/// Most threads. Each is in a call that waits for something, so more are seldom needed.
constexpr int kMostThreads = 16;
/// How long a thread stays when there is nothing to do.
constexpr std::chrono::seconds kIdle{5};

}  // namespace

bool Completions::Add(std::function<void()> settle) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  waiting_.push_back(std::move(settle));
  if (idle_ < static_cast<int>(waiting_.size()) && threads_ < kMostThreads) {
    const SignalsBlocked blocked;
    std::thread thread([this] { Run(); });
    pthread_setname_np(thread.native_handle(), "hz-torch-done");
    thread.detach();
    ++threads_;
  }
  arrival_.notify_one();
  return true;
}

void Completions::Stop(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  arrival_.notify_all();
  end_.wait_for(lock, patience, [this] { return threads_ == 0; });
}

void Completions::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    const bool woken =
        arrival_.wait_for(lock, kIdle, [this] { return stopping_ || !waiting_.empty(); });
    --idle_;
    if (!woken || waiting_.empty()) break;
    {
      const std::function<void()> settle = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      settle();
      // The call goes here, without the lock: its last tensors may ask for Python's lock.
    }
    lock.lock();
  }
  --threads_;
  end_.notify_all();
}

}  // namespace harmonaize_torch
