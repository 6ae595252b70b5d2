#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace harmonaize_torch {

/// Settles futures on threads of its own, hz-torch-done: what was asked to be called then may wait
/// for another operation, which the progress thread has to complete meanwhile. There is a thread
/// while there is something to do and none is idle. Thread: any.
class Completions {
 public:
  /// Has `settle` called soon. Returns false, and does nothing, when threads have been stopped.
  bool Add(std::function<void()> settle);

  /// Begins nothing more, and waits for what has begun, for `patience` at most.
  void Stop(std::chrono::milliseconds patience);

 private:
  void Run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable arrival_;
  std::condition_variable end_;
  std::deque<std::function<void()>> waiting_;
  int threads_ = 0;
  int idle_ = 0;
  bool stopping_ = false;
};

}  // namespace harmonaize_torch
