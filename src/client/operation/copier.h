#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "src/client/operation/copy_queue.h"

namespace harmonaize {

/// The process's thread that copies private data of operations for which no other thread waits: of
/// host streams, and of non-blocking communicators. It sleeps while there are none that go through
/// windows. Programs do not see it: it takes no signals, keeps out of forks, and runs where the
/// process may run, wherever its maker was bound to. Thread: any.
class Copier {
 public:
  /// Returns the process's copier. In a forked child it has no thread before it is needed.
  static Copier& Get();

  /// Makes the thread, unless there is one. Where the system gives none, the threads that ask and
  /// wait copy alone, and the log tells so.
  void Start();
  /// Has the thread copy for a queue as long as batches of it go through windows.
  void Attend(const std::shared_ptr<CopyQueue>& queue);
  /// Tells the thread that queues of this session are no longer driven by another one.
  void Wake(Session& session);

 private:
  Copier() = default;
  static void WatchForks();
  void BeforeFork();
  void Unlock();
  void ForgetParent();
  void StopForGood();
  static void* RunThread(void* copier);
  void Run();
  void TakeQueues();
  void LetOthersPass();
  void SleepUntilWoken();
  void SleepUntilNews(Session& session);

  // Held by the thread except while it sleeps, and across a fork, so that the child finds no lock
  // taken by a thread that it lacks.
  std::mutex copying_;
  std::atomic<int> wanted_{0};        // threads that wait for copying_
  std::atomic<bool> stopped_{false};  // the process ends

  std::mutex mutex_;  // guards those below; taken after copying_
  std::condition_variable woken_condition_;
  bool started_ = false;
  bool refused_ = false;  // the system has given no thread, and the log told
  bool woken_ = false;
  std::vector<std::shared_ptr<CopyQueue>> attended_;  // that the thread has not taken yet

  // The thread's own.
  std::vector<std::shared_ptr<CopyQueue>> queues_;
  /// The queues of the process that this one was forked from. A child never frees them.
  std::vector<std::shared_ptr<CopyQueue>> parents_;
};

}  // namespace harmonaize
