#include "src/client/operation/launch.h"

#include <algorithm>
#include <vector>

#include "src/client/inline/inline_launch.h"
#include "src/client/inline/inline_quick.h"
#include "src/client/operation/posting.h"
#include "src/client/operation/preparation.h"
#include "src/client/operation/prepared_operation.h"

namespace harmonaize {
namespace {

class Launch {
 public:
  static Launch& OfThisThread();

  /// Runs operations from where TryQuickly has left them. `group`: nullptr for a single operation.
  /// Requires: the communicators are usable.
  Status Run(std::span<const Operation> operations, const QuickAttempt& attempt, InGroup* group) {
    group_ = group;
    HZ_RETURN_IF_ERROR(inline_launch_.Run(operations, attempt, &offloaded_));
    return offloaded_.empty() ? Status::Ok() : Offload(offloaded_);
  }

 private:
  Status Offload(std::span<const Operation> operations) {
    prepared_.clear();
    queues_.clear();
    Status status = preparation_.Prepare(operations, &prepared_, &queues_);
    if (status.ok()) status = posting_.Post(&prepared_, &queues_);
    if (status.ok()) status = Wait();
    queues_.clear();  // gives back what is staged for operations that were not posted
    return status;
  }

  Status Wait() {
    kept_ = Status::Ok();
    CopyThroughWindows();
    for (QueueUse& queue : queues_) {
      if (queue.state == QueueUse::State::kPosted) Settle(&queue);
    }
    return std::exchange(kept_, Status::Ok());
  }

  /// Copies what goes through windows on all queues that the caller waits for, side by side: a peer
  /// may wait for any of them.
  void CopyThroughWindows() {
    targets_.clear();
    bool has_windows = false;
    for (const QueueUse& queue : queues_) {
      if (queue.copies == nullptr || !queue.waited_for()) continue;
      targets_.push_back({queue.copies.get(), queue.position});
      has_windows = has_windows || queue.copies->has_windows();
    }
    if (!has_windows) return;
    Keep(AwaitCopies(targets_, [this] { return OnTick(); }));
  }

  Status OnTick() {
    LeaveAborted();
    for (const QueueUse& queue : queues_) {
      if (queue.communicator == nullptr || !queue.waited_for()) continue;
      HZ_RETURN_IF_ERROR(queue.communicator->OnTick());
    }
    return Status::Ok();
  }

  /// Waits for the launch's operations in the queue, as far as the caller waits, and ends them.
  void Settle(QueueUse* queue) {
    if (queue->stream != nullptr) {
      queue->state = QueueUse::State::kSettled;
      return;
    }
    queue->state = QueueUse::State::kWaiting;
    const Status status = SettleOwn(queue);
    queue->state = QueueUse::State::kSettled;
    Keep(status);
  }

  /// Keeps the first failure.
  void Keep(const Status& status) {
    if (kept_.ok() || kept_.code() == Code::kInProgress) kept_ = status.ok() ? kept_ : status;
  }

  Status SettleOwn(QueueUse* queue) {
    Communicator& communicator = *queue->communicator;
    if (!communicator.options().blocking && !communicator.OwnPositionReached()) {
      communicator.LeavePending();
      return Status(Code::kInProgress, "the operation is under way");
    }
    const Status status = communicator.AwaitOwnPosition([this] { LeaveAborted(); });
    if (queue->copies == nullptr) return status;
    // After a failure the operation may still be under way.
    if (!queue->copies->CopyUpTo(queue->position)) {
      communicator.KeepUntilLeft(queue->copies->Drop(&communicator));
    }
    return status;
  }

  /// Leaves aborted communicators. A group may wait for peers of one communicator while another
  /// thread aborts a second one. The second one's operations have ended, and its abort waits for
  /// this thread to leave.
  void LeaveAborted() {
    if (group_ == nullptr) return;
    for (const QueueUse& queue : queues_) {
      Communicator* const communicator = queue.communicator;
      if (communicator != nullptr && communicator->aborted()) LeaveUnlessWaiting(communicator);
    }
  }

  void LeaveUnlessWaiting(Communicator* communicator) {
    const auto is_waiting = [communicator](const QueueUse& queue) {
      return queue.communicator == communicator && queue.state == QueueUse::State::kWaiting;
    };
    if (std::any_of(queues_.begin(), queues_.end(), is_waiting)) return;
    for (QueueUse& queue : queues_) {
      if (queue.communicator != communicator) continue;
      if (queue.state == QueueUse::State::kPosted) Settle(&queue);
      queue.communicator = nullptr;
    }
    group_->Leave(communicator);
  }

  // Kept from launch to launch, so the steady state allocates nothing.
  InlineLaunch inline_launch_;
  Preparation preparation_;
  std::vector<Operation> offloaded_;
  std::vector<PreparedOperation> prepared_;
  std::vector<QueueUse> queues_;
  Posting posting_;
  std::vector<CopyTarget> targets_;
  Status kept_;               // of the queues that have been waited for
  InGroup* group_ = nullptr;  // of the launch under way
};

Launch* MakeLaunchOfThread() {
  thread_local Launch launch;
  return &launch;
}

Launch& Launch::OfThisThread() {
  thread_local Launch* launch = nullptr;
  if (launch == nullptr) launch = MakeLaunchOfThread();
  return *launch;
}

Status CheckStream(const Operation& operation) {
  if (operation.stream == nullptr ||
      &operation.stream->session() == &operation.communicator->session()) {
    return Status::Ok();
  }
  return InvalidUsage(
      "the host stream was made on a connection to the daemon that is lost; make a new one");
}

/// Requires: the operations' communicators and streams have been checked.
Status LaunchChecked(std::span<const Operation> operations, InGroup* group) {
  const QuickAttempt attempt = TryQuickly(operations);
  if (attempt.state == QuickAttempt::State::kDone) return Status::Ok();
  return Launch::OfThisThread().Run(operations, attempt, group);
}

}  // namespace

Status LaunchOperations(std::span<const Operation> operations, InGroup* group) {
  const Communicator* checked = nullptr;
  for (const Operation& operation : operations) {
    if (operation.communicator != checked) {
      HZ_RETURN_IF_ERROR(operation.communicator->CheckUsable());
    }
    checked = operation.communicator;
    HZ_RETURN_IF_ERROR(CheckStream(operation));
  }
  return LaunchChecked(operations, group);
}

Status LaunchOperation(const Operation& operation) {
  HZ_RETURN_IF_ERROR(CheckStream(operation));
  return LaunchChecked({&operation, 1}, nullptr);
}

Result<double> EstimateOperations(std::span<const Operation> operations) {
  double seconds = 0;
  for (const Operation& operation : operations) {
    Communicator& communicator = *operation.communicator;
    EstimateRequest request;
    request.count = operation.count;
    request.member = communicator.member();
    request.root = operation.root;
    request.collective = operation.collective;
    request.type = operation.type;
    HZ_ASSIGN_OR_RETURN(const EstimateReply reply,
                        communicator.session().Call<EstimateReply>(request));
    seconds += reply.seconds;
  }
  return seconds;
}

}  // namespace harmonaize
