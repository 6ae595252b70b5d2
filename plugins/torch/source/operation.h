#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/torch/source/communicator.h"
#include "plugins/torch/source/library.h"
#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

/// What an operation is, and how its parts are carried out.
struct OperationPlan {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = nullptr;     ///< For the profiler, such as "harmonaize:all_reduce"; static.
  std::string description;         ///< For errors, such as "all_reduce of 4 Float elements".
  std::vector<at::Tensor> inputs;  ///< The caller's tensors, for the profiler.
  /// The caller's tensors that get results: one list for each list that torch's call has.
  std::vector<std::vector<at::Tensor>> outputs;
  bool nested_outputs = false;  ///< Whether the future's value is a list of lists.
  int source_rank = -1;         ///< Of a receive.
  std::chrono::milliseconds timeout{0};
  /// Posts the operation on the stream. Called once, with the communicator's lock held.
  std::function<ncclResult_t(ncclComm_t, cudaStream_t)> post;
  /// Puts results in their places when the operation has succeeded; may be empty.
  std::function<void()> finish;
};

/// What Operation::Launch has done.
enum class Launched {
  kYes,
  kNot,      ///< It cannot be posted, or was ended before: EndUnlaunched is to be called.
  kNoStream  ///< There is no stream for it yet.
};

/// An operation from its call to its end, as torch's Work.
///
/// Its states: kept by the communicator, in flight on a stream of its own, ended. Whoever notices
/// the end first completes it: a thread that waits for it, one that asks, or the progress thread.
/// Thread: any.
class Operation : public c10d::Work {
 public:
  Operation(int rank, OperationPlan plan, std::shared_ptr<Communicator> communicator);

  /// Has the communicator keep the operation behind those before it. Go has to follow.
  void BeKept();

  /// Goes on after the communicator has kept the operation: launches it, and has it watched.
  void Go();

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  /// Waits until the operation has ended, or for `timeout` where that is not kNoTimeout, after
  /// which the operation goes on. Throws: what ended it; BackendError after `timeout`.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  /// Ends all operations of the communicator with an error.
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  /// Not marked as overriding: older versions of c10d do not have it.
  std::chrono::milliseconds getTimeout() const { return plan_.timeout; }

  /// Posts the operation. For the communicator, under its lock.
  Launched Launch(ncclComm_t handle);

  /// Says why the operation will not be launched. For the communicator, under its lock.
  void Refuse(const std::string& reason);

  /// Gives an operation that no communicator keeps what it lacked, and has the communicator keep
  /// it: for a receive from any rank, whose source is known now. Communicator::GoOn has to follow.
  void Choose(int source, std::function<ncclResult_t(ncclComm_t, cudaStream_t)> post,
              const std::shared_ptr<Communicator>& communicator);

  bool HasEnded() const;

  /// Ends the operation with an error that says `reason`, if it was not launched.
  void End(const std::string& reason);

  /// Has `act` called while the operation waits: after `first`, and then again and again, at
  /// growing intervals of up to `longest`.
  void WhileWaiting(std::chrono::milliseconds first, std::chrono::milliseconds longest,
                    std::function<void()> act);

  /// Ends an operation after Launched::kNot or Refuse, without the communicator's lock.
  void EndUnlaunched();

  /// Completes the operation if it has ended, and ends it if its time is over. Returns whether it
  /// is completed. Does not wait.
  bool Advance(std::chrono::steady_clock::time_point now);

 private:
  enum class State { kKept, kInFlight, kEnded };

  bool QueryStream();
  void SynchronizeStream();
  void Complete(ncclResult_t result);
  void Expire();
  void EndWith(std::exception_ptr error);
  void SettleFuture(const std::exception_ptr& error);
  void ReleaseParts();
  void AdvanceAlone();
  void EndIfGroupIsBroken();
  /// The group's communicator while none is chosen yet; null once the operation has ended.
  std::shared_ptr<Communicator> communicator() const;

  void ActWhileWaiting(std::chrono::steady_clock::time_point now);
  void NoteWord(std::chrono::steady_clock::time_point now);
  std::string Noted();
  std::exception_ptr ErrorOf(ncclResult_t result);

  OperationPlan plan_;
  const std::chrono::steady_clock::time_point started_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;

  mutable std::mutex state_mutex_;  // guards what follows
  std::shared_ptr<Communicator> communicator_;
  bool is_kept_ = false;  // By a communicator, which ends it when it fails.
  bool future_is_taken_ = false;
  bool future_is_settled_ = false;
  State state_ = State::kKept;
  cudaStream_t stream_ = nullptr;
  bool awaited_ =
      false;  // A thread is in SynchronizeStream: it hears the result, once, and completes.
  std::exception_ptr unlaunched_;
  struct Waiting {
    std::chrono::milliseconds interval{0};
    std::chrono::milliseconds longest{0};
    std::chrono::steady_clock::time_point next;
    std::function<void()> act;
  } waiting_;
  std::string noted_;  // What the library said last of ranks that are late.
  std::chrono::steady_clock::time_point noted_at_;
  std::atomic<bool> expired_{false};
};

}  // namespace harmonaize_torch
