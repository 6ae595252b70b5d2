#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "src/base/collective.h"
#include "src/base/status.h"
#include "src/client/operation/stream.h"
#include "src/client/session/session.h"
#include "src/ipc/unique_id.h"
#include "src/numerics/types.h"

namespace harmonaize {

class CopyBatch;
class CopyQueue;
class InlinePath;
class Notices;

/// Options of a rank for its communicator.
struct CommunicatorOptions {
  bool blocking =
      true;          ///< False: calls may return kInProgress; AsyncState tells when they are done.
  std::string name;  ///< For logs and the operator.
  int device = 0;    ///< The label that ncclCommCuDevice gives back.
  bool on_gpu = false;  ///< To join: the rank uses a GPU, and has found stock NCCL.
};

/// One rank's handle on a communicator. Join, Split, Shrink or Grow make it kForming; it is ready
/// once all ranks are there. Thread: one at a time. Abort, AsyncState and LastError: any.
class Communicator {
 public:
  /// Returns the id for ncclGetUniqueId: made from NCCL_COMM_ID, or a secret that the daemon draws.
  static Result<UniqueId> CreateUniqueId();

  static Result<std::unique_ptr<Communicator>> Join(const UniqueId& id, int ranks, int rank,
                                                    const CommunicatorOptions& options);
  /// Returns nullptr for a rank that takes no part (`has_color` false); it must call nevertheless.
  Result<std::unique_ptr<Communicator>> Split(bool has_color, int color, int key,
                                              const CommunicatorOptions& options);
  /// Called by the ranks that stay, all with the same list.
  Result<std::unique_ptr<Communicator>> Shrink(std::span<const int> excluded, bool abort_parent,
                                               const CommunicatorOptions& options);
  /// Returns the id by which new ranks join a growth of this communicator.
  Result<UniqueId> CreateGrowId();
  /// Makes a ticket of the communicator's job, by which a newcomer can join it. Returns its text.
  Result<std::string> MakeTicket(int uses, double seconds);
  /// Burns all tickets of the communicator's job.
  Status BurnTickets();
  /// Returns how many newcomers wait for a place in the communicator's job.
  Result<int> CountNewcomers();
  /// Gives up to `most` newcomers places in the communicator to which this one is to grow. Returns
  /// the size of that; this one's own if nobody waits.
  Result<int> Admit(int most);
  /// Ranks that are gone.
  struct LostRanks {
    int count = 0;           ///< How many there are.
    std::vector<int> ranks;  ///< The first of them, rising: kMostLostRanksNamed at most.
  };
  /// Returns the ranks that are gone, as the daemon that looks after the communicator knows.
  Result<LostRanks> FindLostRanks();
  /// A rank of the parent takes part with GrowFrom, a new one with JoinGrowth.
  Result<std::unique_ptr<Communicator>> GrowFrom(int ranks, const CommunicatorOptions& options);
  static Result<std::unique_ptr<Communicator>> JoinGrowth(const UniqueId& id, int ranks, int rank,
                                                          const CommunicatorOptions& options);

  /// Frees the handle. Requires: Leave or Abort was called, or the daemon keeps the rank until the
  /// process ends.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Waits while the communicator forms. Errors: why it failed; an abort of its parent is a
  /// failure.
  Status AwaitReady();
  /// Returns ok, kInProgress while it forms or a non-blocking call is under way, or the first
  /// failure. When the operations under way have ended, copies their data to the caller's buffers.
  Status AsyncState();
  /// Returns ok when operations may be posted; else the reason why not.
  Status CheckUsable() { return Usable() ? Status::Ok() : CheckThoroughly(); }

  /// Returns the failure that has ended the communicator, if any. Checks the daemon's socket, by a
  /// system call.
  Status CheckHealth();

  /// Starts to flush; AsyncState is kInProgress until everything posted is done. A blocking
  /// communicator waits for that. Errors: kInvalidArgument the second time, and while a call on a
  /// non-blocking communicator is in progress.
  Status Finalize();
  /// Waits for the posted operations, then leaves. Returns ok also if the daemon is gone.
  Status Leave();
  /// Ends every operation of every rank with an error that names this rank, and leaves. Does not
  /// wait for peers. When it returns, threads that were inside a call on this communicator have
  /// left it, except those inside Leave or Abort. The second of two calls leaves the work to the
  /// first.
  Status Abort();
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }
  /// Returns kRemoteError once it has been aborted: for waits that the daemon does not end.
  Status CheckNotAborted() const;
  /// Ends every operation of every rank because this one cannot go on; the rank stays.
  Status Abandon();
  /// Ends every operation in flight; afterwards only Leave, Split and Shrink make sense.
  Status Revoke();

  /// Return the number of ranks, and this rank's number; known once the communicator is ready.
  int ranks() const { return ranks_.load(std::memory_order_relaxed); }
  int rank() const { return rank_.load(std::memory_order_acquire); }
  /// Returns the id of the job that it belongs to; "" while it forms.
  std::string job() const { return slot().job.Get(); }
  /// Returns MemberSlot::across_hosts.
  bool across_hosts() const { return slot().across_hosts.load(std::memory_order_relaxed) != 0; }
  /// Returns whether all ranks have joined with CommunicatorOptions::on_gpu. Known once it is
  /// ready.
  bool all_on_gpu() const { return slot().all_on_gpu.load(std::memory_order_relaxed) != 0; }
  /// Returns MemberSlot::ranks_together, forced into [1, ranks()]. Known once it is ready.
  int ranks_together() const;
  const CommunicatorOptions& options() const { return options_; }
  uint32_t member() const { return member_; }
  Session& session() { return *session_; }
  /// The same, for what outlives the communicator.
  const std::shared_ptr<Session>& shared_session() const { return session_; }
  const Session& session() const { return *session_; }
  /// Returns nullptr where the daemon offers no inline path.
  InlinePath* inline_path() { return inline_path_.get(); }

  /// Where this rank tells the daemon what stock NCCL carries for it. Requires: the rank has not
  /// left.
  StockNcclSlot& stock_nccl() const { return slot().stock_nccl; }
  /// Returns the bytes of shared memory that the library maps for this communicator alone.
  /// Requires: the communicator is ready.
  uint64_t mapped_bytes() const;

  /// Returns the last failure's text, or "".
  std::string LastError() const;
  void SetLastError(std::string text);

  /// A user-made operator (ncclRedOpCreatePreMulSum): number from kFirstUserOperator up.
  static constexpr int kFirstUserOperator = 5;
  Result<int> AddPreMulSum(DataType type, uint64_t scalar_bits);
  Status RemovePreMulSum(int op);
  /// Returns the scalar of a user-made operator. Errors: it is unknown, or made for another type.
  Result<uint64_t> PreMulSumScalar(int op, DataType type) const;

  // For the launch of a group's operations.

  uint64_t NextSequence() { return next_sequence_++; }
  /// Returns the sequence of the next send, or receive, that goes through a window.
  uint64_t NextWindowOf(Collective pair) {
    return pair == Collective::kSend ? next_send_window_++ : next_receive_window_++;
  }
  uint64_t NextOwnPosition() { return ++own_position_; }
  /// Passes on the daemon's notices. Called about ten times a second while a thread waits.
  Status OnTick();
  /// Waits until the own queue is done, and returns the failure of its operations, if any. Calls
  /// `meanwhile` now and then.
  Status AwaitOwnPosition(const std::function<void()>& meanwhile = {});
  /// Returns whether the own queue is done, without waiting.
  bool OwnPositionReached();
  /// Remembers that operations of this communicator were queued on a host stream, up to this
  /// position.
  void NoteStreamUse(HostStream* stream, uint64_t position);
  /// Leaves the operations of the own queue, which are under way, to AsyncState and later calls.
  void LeavePending();
  /// Keeps the shared memory of operations that may still be under way, until the rank has left.
  void KeepUntilLeft(std::vector<std::unique_ptr<CopyBatch>> batches);
  /// The private data of the own queue's operations.
  const std::shared_ptr<CopyQueue>& copies() const { return copies_; }
  /// Guards what ranks write into MemberSlot::lanes: see WindowCopy::Publish.
  std::mutex& slice_words() { return slice_words_; }
  SliceProgress& lane(SliceLane lane) const { return slot().lanes[lane]; }

 private:
  friend class InUse;
  friend class InOperation;
  friend class InGroup;

  struct StreamUse {
    std::shared_ptr<CopyQueue> stream;
    uint64_t position;
  };
  struct PreMulSum {
    bool live;
    DataType type;
    uint64_t scalar_bits;
  };

  Communicator(std::shared_ptr<Session> session, uint32_t member,
               const CommunicatorOptions& options);
  template <typename Request>
  static Result<std::unique_ptr<Communicator>> Make(std::shared_ptr<Session> session,
                                                    const Request& request,
                                                    const CommunicatorOptions& options,
                                                    std::span<const std::byte> tail = {});
  template <typename Request>
  Result<std::unique_ptr<Communicator>> MakeFromThis(const Request& request,
                                                     const CommunicatorOptions& options,
                                                     std::span<const std::byte> tail = {});
  MemberSlot& slot() const { return session_->member_slot(member_); }
  // Returns whether all is well at a glance; every operation asks.
  bool Usable() const {
    return !session_->inherited() && !session_->lost() &&
           slot().state.load(std::memory_order_acquire) ==
               static_cast<uint32_t>(MemberState::kReady) &&
           rank() >= 0 && !aborted_.load(std::memory_order_relaxed) &&
           !operation_pending_.load(std::memory_order_acquire) &&
           !finalized_.load(std::memory_order_acquire);
  }
  Status CheckThoroughly();
  Status SettleOperation();
  void NoteFirstFailure(const Status& failure);
  Status RequestLeave();
  Status SlotFailure() const;
  Status TakeOperationFailure();
  void DropCopies();
  bool Quiescent();
  Status AwaitQuiescent();

  std::shared_ptr<Session> session_;
  const uint32_t member_;
  const CommunicatorOptions options_;
  // Written by the thread that first sees the communicator ready, `rank_` last.
  std::mutex ready_mutex_;
  std::unique_ptr<InlinePath> inline_path_;
  std::atomic<int> ranks_{0};
  std::atomic<int> rank_{-1};

  const std::shared_ptr<CopyQueue> copies_;
  std::mutex slice_words_;
  uint64_t next_sequence_ = 0;
  uint64_t next_send_window_ = 0;
  uint64_t next_receive_window_ = 0;
  uint64_t own_position_ = 0;
  uint32_t failures_told_ = 0;
  std::vector<StreamUse> streams_used_;
  std::vector<PreMulSum> operators_;

  std::atomic<bool> finalized_{false};   ///< Finalize was called.
  std::atomic<bool> finalizing_{false};  ///< Finalize was called, and a non-blocking communicator
                                         ///< has work left.
  std::atomic<bool> operation_pending_{false};
  std::atomic<bool> aborted_{false};
  /// Copy of aborted_ that communicators made from this one share; they may outlive it.
  const std::shared_ptr<std::atomic<bool>> aborted_flag_ =
      std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<const std::atomic<bool>> parent_aborted_;

  std::mutex pending_mutex_;  // guards the two below; no thread waits for peers under it
  uint64_t pending_position_ = 0;
  std::vector<std::unique_ptr<CopyBatch>> kept_batches_;

  std::mutex membership_mutex_;  // guards left_, and requests that name `member_`
  bool left_ = false;            ///< `member_` may stand for another rank by now.

  std::atomic<int> users_{0};         ///< Threads inside a call, see InUse.
  std::atomic<bool> posting_{false};  ///< A thread is posting an operation, see InOperation.
  const std::shared_ptr<Notices> notices_;

  std::mutex failure_mutex_;  // guards the one below
  Status first_failure_;
};

/// Marks, while it lives, that this thread is inside a call on the communicator. An Abort in
/// another thread does not return before the thread has left, so the communicator is not freed
/// meanwhile.
class InUse {
 public:
  explicit InUse(Communicator* communicator) : users_(communicator->users_) {
    // Relaxed: a thread that enters only while Abort returns comes too late, in whatever order.
    users_.fetch_add(1, std::memory_order_relaxed);
  }
  // Release, with the acquire in Abort: work inside the call is done before the communicator is
  // freed.
  ~InUse() { users_.fetch_sub(1, std::memory_order_release); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  std::atomic<int>& users_;
};

/// Marks, while it lives, that this thread posts operations on each of the communicators. Abort
/// treats it as InUse, but it needs no locked instruction, because one thread at a time may post.
/// The list must not change meanwhile; a communicator may be in it more than once.
class InOperation {
 public:
  explicit InOperation(std::span<Communicator* const> communicators)
      : communicators_(communicators) {
    for (Communicator* communicator : communicators_) {
      communicator->posting_.store(true, std::memory_order_relaxed);
    }
  }
  // Release, with the acquire in Abort.
  ~InOperation() {
    for (Communicator* communicator : communicators_) {
      communicator->posting_.store(false, std::memory_order_release);
    }
  }
  InOperation(const InOperation&) = delete;
  InOperation& operator=(const InOperation&) = delete;

 private:
  const std::span<Communicator* const> communicators_;
};

/// InOperation for the communicators of a group, which may be left one by one. Empties the list.
class InGroup {
 public:
  explicit InGroup(std::vector<Communicator*>* communicators) : communicators_(*communicators) {
    for (Communicator* communicator : communicators_) {
      communicator->posting_.store(true, std::memory_order_relaxed);
    }
  }
  // Release, with the acquire in Abort.
  ~InGroup() {
    for (Communicator* communicator : communicators_) {
      if (communicator != nullptr) communicator->posting_.store(false, std::memory_order_release);
    }
    communicators_.clear();
  }
  InGroup(const InGroup&) = delete;
  InGroup& operator=(const InGroup&) = delete;

  /// Ends the thread's use of a communicator, which may be gone from now on.
  void Leave(Communicator* communicator) {
    std::replace(communicators_.begin(), communicators_.end(), communicator,
                 static_cast<Communicator*>(nullptr));
    communicator->posting_.store(false, std::memory_order_release);
  }

 private:
  std::vector<Communicator*>& communicators_;
};

}  // namespace harmonaize
