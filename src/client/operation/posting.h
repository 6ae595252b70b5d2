#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/client/operation/prepared_operation.h"
#include "src/client/session/session.h"

namespace harmonaize {

/// Hands the prepared operations of one launch to the daemon: gives them positions in their queues,
/// and waits for room where it has to. A thread keeps it from launch to launch, so the steady state
/// allocates nothing.
class Posting {
 public:
  /// Posts all operations or none. Sorts them by their turns if there is little room. Sets the
  /// positions of the queues. Requires: there is an operation, and the queues are those of all
  /// operations. Errors: kInvalidUsage if the provider allows too little room, and those of waiting
  /// for it.
  Status Post(std::vector<PreparedOperation>* prepared, std::vector<QueueUse>* queues);

 private:
  using Orders = std::vector<std::unique_lock<std::mutex>>;

  Session& session() const { return queues_->front().communicator->session(); }
  Status PostAtOnce();
  Status PostWithLittleRoom();
  std::vector<Session::QueueShare> SortByTurn();
  Status CheckLanes(std::span<const Session::QueueShare> shares) const;
  Status NoRoom() const;
  Status TakePositions(Orders* orders);
  Status LockWithRoom(std::span<HostStream* const> streams, Orders* orders);
  Status CheckNoneAborted() const;
  void DescribeAll();
  void AddCopies(bool waits);
  void DropCopies();
  void MarkLast(const QueueUse& queue);

  // Of the launch under way.
  std::vector<PreparedOperation>* prepared_ = nullptr;
  std::vector<QueueUse>* queues_ = nullptr;
  std::vector<OperationDescriptor> descriptors_;
};

}  // namespace harmonaize
