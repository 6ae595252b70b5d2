#include "daemon/http/event_queue.h"

namespace harmonaize::daemon {

bool EventQueue::Write(std::string text) {
  std::unique_lock lock(mutex_);
  if (finished_ || ending_) return false;
  if (text.empty()) return true;
  if (queued_bytes_ > 0 && queued_bytes_ + text.size() > most_bytes_) {
    refused_ = true;
    return false;
  }
  const size_t bytes = text.size();
  texts_.push_back(std::move(text));
  queued_bytes_ += bytes;
  Wake(&lock);
  return true;
}

size_t EventQueue::queued() const {
  const std::lock_guard lock(mutex_);
  return queued_bytes_;
}

void EventQueue::End() {
  std::unique_lock lock(mutex_);
  if (finished_ || ending_) return;
  ending_ = true;
  Wake(&lock);
}

// A connection that has been woken and has not come yet needs no second call.
void EventQueue::Wake(std::unique_lock<std::mutex>* lock) {
  if (woken_) return;
  woken_ = true;
  lock->unlock();
  wake_();
}

std::string EventQueue::Take(size_t least_bytes) {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  std::string taken;
  while (!texts_.empty() && taken.size() < least_bytes) {
    if (taken.empty()) {
      taken = std::move(texts_.front());
    } else {
      taken += texts_.front();
    }
    texts_.pop_front();
  }
  taken_bytes_ += taken.size();
  return taken;
}

bool EventQueue::Sent() {
  const std::lock_guard lock(mutex_);
  queued_bytes_ -= std::exchange(taken_bytes_, 0);
  // Half of the queue at once is worth a call.
  if (!refused_ || queued_bytes_ > most_bytes_ / 2) return false;
  refused_ = false;
  return true;
}

bool EventQueue::Drained() const {
  const std::lock_guard lock(mutex_);
  return ending_ && queued_bytes_ == 0;
}

bool EventQueue::Finish() {
  const std::lock_guard lock(mutex_);
  if (finished_) return false;
  finished_ = true;
  texts_.clear();
  queued_bytes_ = 0;
  taken_bytes_ = 0;
  return true;
}

}  // namespace harmonaize::daemon
