#pragma once

#include <cstdint>
#include <optional>

namespace harmonaize::transport {

/// What waits in the queues of one way in one direction, as its receiver sees it: how much later
/// frames come than the quickest did. A round trip tells the queues of both directions together,
/// and not which is full.
///
/// Of each period the least counts, since that is what no frame escaped: a receiver that was busy
/// elsewhere sees some frames late, a full queue makes all of them late. (CoDel, Nichols and
/// Jacobson, 2012, takes the least for the same reason.) Sender and receiver have different clocks,
/// whose offset falls out, and whose drift is allowed for. One thread's.
class ArrivalDelay {
 public:
  /// A frame that was sent at `sent_ns` of the sender's clock came at `now_ns` of ours.
  void Note(uint64_t sent_ns, uint64_t now_ns);
  /// The queue of the last whole period; none if nothing came in it.
  std::optional<uint64_t> QueueNs(uint64_t now_ns) const;

  static constexpr uint64_t kPeriodNs = 100'000'000;
  /// By how much clocks that are kept in step may still drift apart, parts in a million.
  static constexpr uint64_t kDriftPpm = 20;

 private:
  static constexpr int64_t kNone = INT64_MAX;

  int64_t least_ = kNone;  // ever, with what drift allows since
  uint64_t drifted_ns_ = 0;
  uint64_t period_ = 0;
  int64_t least_now_ = kNone;   // of the period under way
  int64_t least_last_ = kNone;  // of the one before
};

}  // namespace harmonaize::transport
