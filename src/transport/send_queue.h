#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "src/transport/bulk_queue.h"
#include "src/transport/message_board.h"

namespace harmonaize::transport {

/// What one connection is to send, of several tenants. While more than one of them has something to
/// send they share the connection by their weights, whatever the number and the sizes of their
/// messages: start-time fair queueing (Goyal, Vin, Cheng, "Start-time Fair Queueing", SIGCOMM
/// 1996). A tenant whose messages wait for each other often has nothing to send; so what it has not
/// used lately, up to kCreditBytes, it has in front of the others when it comes back.
///
/// Of one tenant small messages go before frames of large ones. Requests may leave by Unlink.
/// Allocates nothing once it has seen as many tenants at a time.
class SendQueue {
 public:
  SendQueue() = default;
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  /// A send that was just made.
  void Push(Request* send);
  /// A large one whose receiver is ready.
  void PushBulk(Request* send);
  /// A frame of it has gone, and more is to go: before all others of its operation.
  void ReturnBulk(Request* send);

  struct Turn {
    Request* send = nullptr;
    bool bulk = false;  ///< It was pushed as that.
  };
  /// Whose turn it is, taken out; none when nothing is left. What goes of it is told by Charge.
  Turn Next();
  void Charge(const Request& send, size_t bytes);
  /// Whether more than one tenant has sent lately: among the last kSharedBytes.
  bool shared() const { return sent_ - before_last_ < kSharedBytes; }

  static constexpr double kCreditBytes = 4 << 20;
  static constexpr uint64_t kSharedBytes = uint64_t{2} << 20;

 private:
  struct Share {
    TenantShare of;
    double start = 0;  ///< Of what it sends next: bytes by weight, on the queue's clock.
    bool waiting = false;
    IntrusiveList<Request> small;
    BulkQueue bulk;
  };
  Share* ShareOf(const Request& send);
  Share* Waiting(const Request& send);
  Share* First();
  static Turn Take(Share* share);

  std::deque<Share> shares_;  // never move
  double clock_ = 0;          // the start of what was sent last
  uint64_t sent_ = kSharedBytes;
  uint32_t last_ = 0;         // the tenant who has sent last
  uint64_t before_last_ = 0;  // sent_ when it was another one
};

}  // namespace harmonaize::transport
