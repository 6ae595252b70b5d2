#pragma once

#include <cstdint>
#include <deque>

#include "src/transport/link/message_board.h"

namespace harmonaize::transport {

/// The large messages that one connection is to send, frame by frame. Operations take turns; the
/// messages of one operation go one after the other, in the order in which they could begin. If
/// they took turns as well, all of them would be done late, and work that waits for the first could
/// not overlap with the sending of the second.
///
/// Requests may leave by Unlink. Allocates nothing for as many operations at a time as it has seen.
class BulkQueue {
 public:
  BulkQueue() = default;
  BulkQueue(const BulkQueue&) = delete;
  BulkQueue& operator=(const BulkQueue&) = delete;

  /// Appends a send after all others of its operation.
  void Push(Request* send) { RowOf(send->tag.operation)->requests.PushBack(send); }
  /// Returns the send whose turn it is; null when none is left.
  Request* Front();
  /// Removes and returns the send whose turn it is.
  Request* Pop();
  /// Puts back a send from Pop that is not done yet, before all others of its operation.
  void Return(Request* send) { RowOf(send->tag.operation)->requests.PushFront(send); }

 private:
  /// Sends of one operation.
  struct Row : ListNode {
    uint64_t operation = 0;
    IntrusiveList<Request> requests;
  };
  Row* RowOf(uint64_t operation);

  std::deque<Row> all_;  // never moves
  IntrusiveList<Row> free_;
  IntrusiveList<Row> rows_;  // in the order of their turns
};

}  // namespace harmonaize::transport
