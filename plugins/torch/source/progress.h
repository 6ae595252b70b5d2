#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "plugins/torch/source/completions.h"
#include "plugins/torch/source/errands.h"
#include "plugins/torch/source/operation.h"
#include "plugins/torch/source/stream_pool.h"

namespace harmonaize_torch {

/// What a process has once, whatever the number of its groups: its streams, and a thread that
/// completes operations for which nobody waits, ends those whose time is over, and goes on with
/// communicators that are forming. The thread begins with the first operation, takes no signals,
/// and never holds Python's lock while it waits. Thread: any.
class Progress {
 public:
  /// Returns this process's. A forked child has one of its own: threads do not come with a fork. It
  /// lives until the process ends.
  static Progress& Get();

  void Watch(const c10::intrusive_ptr<Operation>& operation);
  void Watch(const std::shared_ptr<Communicator>& communicator);

  StreamPool& streams() { return streams_; }
  Errands& errands() { return errands_; }
  Completions& completions() { return completions_; }

  /// Says whether the calling thread is the progress thread or that of errands, for which nothing
  /// may wait that only they can end.
  static bool IsOwnThread();
  static void SetOwnThread();

  /// Ends the threads, before Python does: a thread that asks for Python's lock later is ended in
  /// the middle of what it does. Operations are then completed only by who waits for them, and what
  /// is in flight stays allocated. Waits for no thread longer than a second or two.
  void Stop();
  bool IsStopped() const { return is_stopped_.load(std::memory_order_acquire); }

 private:
  void StartThread();
  void Run();
  bool TakeArrived();
  bool AdvanceAll();

  StreamPool streams_;
  Errands errands_;
  Completions completions_;
  // Stored by Stop once the thread has ended: who sees it does what the thread did.
  std::atomic<bool> is_stopped_{false};

  std::mutex mutex_;  // guards what follows
  std::condition_variable arrival_;
  bool started_ = false;
  bool stopping_ = false;
  bool thread_has_ended_ = false;
  std::condition_variable end_;
  std::vector<c10::intrusive_ptr<Operation>> arrived_operations_;
  std::vector<std::shared_ptr<Communicator>> arrived_communicators_;

  // The thread's own.
  std::chrono::steady_clock::time_point last_news_;
  std::vector<c10::intrusive_ptr<Operation>> operations_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
};

}  // namespace harmonaize_torch
