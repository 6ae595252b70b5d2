#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace harmonaize_torch {

/// Asks the store again and again, on a thread of its own, hz-torch-store: an answer may take as
/// long as the store's server likes, and the progress thread has times to keep. The thread begins
/// with the first errand, and does not keep the process from ending. Thread: any.
class Errands {
 public:
  /// Something to ask. Returns whether there is nothing left to ask. Called every few milliseconds,
  /// and never with a lock held. An exception ends the errand.
  using Errand = std::function<bool()>;

  /// Returns false, and does nothing, after Stop.
  bool Add(Errand errand);
  /// Begins no more errands, and waits for one that has begun, for `patience` at most.
  void Stop(std::chrono::milliseconds patience);

 private:
  void Run();
  bool TakeArrived();

  std::mutex mutex_;  // guards what follows
  std::condition_variable arrival_;
  std::condition_variable end_;
  bool started_ = false;
  bool stopping_ = false;
  bool ended_ = false;
  std::vector<Errand> arrived_;

  std::vector<Errand> errands_;  // the thread's own
};

}  // namespace harmonaize_torch
