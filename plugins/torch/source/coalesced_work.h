#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "plugins/torch/source/operation.h"
#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

/// The operations that a thread begins between startCoalescing and endCoalescing, as one Work: it
/// ends when all of them have ended. Thread: any.
class CoalescedWork : public c10d::Work {
 public:
  CoalescedWork(int rank, std::vector<c10::intrusive_ptr<Operation>> operations);

  bool isCompleted() override;
  bool isSuccess() const override;
  /// Returns the error of the first that has one.
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  /// Waits for all, each for `timeout` where that is not kNoTimeout. Throws: what ended the first
  /// that failed.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override { wait(); }
  void abort() override;
  /// Its value is the list of the operations' futures.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<c10::intrusive_ptr<Operation>> operations_;
};

/// Gathers what is begun between startCoalescing and endCoalescing. Thread: any, one at a time
/// between the two.
class Coalescing {
 public:
  void Start();
  /// Notes an operation, if it is begun between the two.
  void Note(const c10::intrusive_ptr<Operation>& operation);
  /// Throws: BackendError without Start.
  c10::intrusive_ptr<c10d::Work> End(int rank);

 private:
  std::mutex mutex_;
  std::optional<std::vector<c10::intrusive_ptr<Operation>>> begun_;  // guarded by mutex_
};

}  // namespace harmonaize_torch
