#include "src/client/operation/group.h"

#include <span>

#include "src/client/operation/launch.h"

namespace harmonaize {
namespace {

/// Keeps the first real failure, which also replaces kInProgress.
void Keep(Status* kept, const Status& status) {
  if (status.ok()) return;
  if (kept->ok() || (kept->code() == Code::kInProgress && status.code() != Code::kInProgress)) {
    *kept = status;
  }
}

bool IsWithItself(const Operation& operation) {
  return IsPointToPoint(operation.collective) && operation.root == operation.communicator->rank();
}

/// Returns the error for a send to the calling rank itself that has no receive, or the reverse.
Status AloneWithItself(int rank, bool sends) {
  return InvalidUsage(
      "rank {} {}, which would wait for ever: put ncclSend to itself and the matching ncclRecv "
      "into "
      "one group, between ncclGroupStart and ncclGroupEnd",
      rank, sends ? "sends to itself without a receive" : "receives from itself without a send");
}

/// Returns ok if each send of a rank to itself has its receive in the same group. `communicators`
/// may contain duplicates.
Status CheckThoseWithItself(std::span<const Operation> operations,
                            std::span<Communicator* const> communicators) {
  for (const Communicator* communicator : communicators) {
    int64_t sends_left = 0;
    for (const Operation& operation : operations) {
      if (operation.communicator != communicator || !IsWithItself(operation)) continue;
      sends_left += operation.collective == Collective::kSend ? 1 : -1;
    }
    if (sends_left != 0) return AloneWithItself(communicator->rank(), sends_left > 0);
  }
  return Status::Ok();
}

/// Marked as in use, because another thread may abort the communicator meanwhile.
Status AwaitReady(Communicator* communicator) {
  const InUse in_use(communicator);
  return communicator->AwaitReady();
}

Group* MakeGroupOfThread() {
  thread_local Group group;
  return &group;
}

}  // namespace

Group& Group::OfThisThread() {
  // A plain pointer needs no check whether it has been constructed.
  thread_local Group* group = nullptr;
  if (group == nullptr) group = MakeGroupOfThread();
  return *group;
}

Status Group::End() {
  if (depth_ == 0) return InvalidUsage("ncclGroupEnd without a ncclGroupStart in this thread");
  if (--depth_ > 0) return Status::Ok();
  return Run();
}

Status Group::Run() {
  // The members are emptied first: the group is ready for reuse whatever happens below.
  running_.clear();
  running_.swap(operations_);
  Status status = std::exchange(failure_, Status::Ok());
  if (!status.ok()) {
    for (const Forming& forming : std::exchange(forming_, {})) forming.on_formed(status);
    return status;
  }
  communicators_.clear();
  bool some_with_itself = false;
  for (const Operation& operation : running_) {
    some_with_itself = some_with_itself || IsWithItself(operation);
    if (communicators_.empty() || communicators_.back() != operation.communicator) {
      communicators_.push_back(operation.communicator);
    }
  }
  if (some_with_itself) status = CheckThoseWithItself(running_, communicators_);
  InGroup in_group(&communicators_);
  if (!forming_.empty()) Keep(&status, AwaitForming());
  if (!running_.empty() && (status.ok() || status.code() == Code::kInProgress)) {
    Keep(&status, LaunchOperations(running_, &in_group));
  }
  return status;
}

Status Group::AwaitForming() {
  Status status;
  for (const Forming& forming : std::exchange(forming_, {})) {
    if (!forming.communicator->options().blocking) {
      const Status state = forming.communicator->AsyncState();
      if (state.ok()) forming.on_formed(state);
      Keep(&status, state);
      continue;
    }
    const Status ready = AwaitReady(forming.communicator);
    forming.on_formed(ready);
    Keep(&status, ready);
  }
  return status;
}

Result<double> Group::SimulateEnd() {
  if (depth_ == 0) {
    return InvalidUsage("ncclGroupSimulateEnd without a ncclGroupStart in this thread");
  }
  depth_ = 0;
  const std::vector<Operation> operations = std::exchange(operations_, {});
  HZ_RETURN_IF_ERROR(std::exchange(failure_, Status::Ok()));
  HZ_RETURN_IF_ERROR(AwaitForming());
  return EstimateOperations(operations);
}

Status Group::Add(const Operation& operation) {
  if (!open()) {
    if (IsWithItself(operation)) {
      return AloneWithItself(operation.root, operation.collective == Collective::kSend);
    }
    return LaunchOperation(operation);
  }
  operations_.push_back(operation);
  return Status::Ok();
}

Status Group::AddForming(Communicator* communicator, std::function<void(const Status&)> on_formed) {
  forming_.push_back({communicator, std::move(on_formed)});
  if (open()) return Status::Ok();
  return AwaitForming();
}

void Group::NoteFailure(const Status& status) {
  if (open()) Keep(&failure_, status);
}

}  // namespace harmonaize
