#pragma once

#include <cstdint>
#include <deque>

#include "src/transport/link/message_board.h"

namespace harmonaize::transport {

/// The large messages that one connection is to send, frame by frame. Operations take turns; the
/// messages of one operation go one after the other, in the order in which they could begin: if
/// they took turns as well all of them would be done late, and what waits for the first would not
/// run beside what the second sends.
///
/// Requests may leave by Unlink. Allocates nothing once it has seen as many operations at a time.
class BulkQueue {
 public:
  BulkQueue() = default;
  BulkQueue(const BulkQueue&) = delete;
  BulkQueue& operator=(const BulkQueue&) = delete;

  /// Behind all others of its operation.
  void Push(Request* send) { RowOf(send->tag.operation)->requests.PushBack(send); }
  /// Whose turn it is; null when nobody is left.
  Request* Front();
  /// The same, taken out.
  Request* Pop();
  /// What Pop has given is not done yet: before all others of its operation.
  void Return(Request* send) { RowOf(send->tag.operation)->requests.PushFront(send); }

 private:
  /// Of one operation.
  struct Row : ListNode {
    uint64_t operation = 0;
    IntrusiveList<Request> requests;
  };
  Row* RowOf(uint64_t operation);

  std::deque<Row> all_;  // never moves
  IntrusiveList<Row> free_;
  IntrusiveList<Row> rows_;  // in turn
};

}  // namespace harmonaize::transport
