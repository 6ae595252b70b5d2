#pragma once

#include <cstdint>
#include <optional>

namespace harmonaize::transport {

/// Estimates how long frames of one direction wait in the queues of their way, at the receiver: how
/// much later they arrive than the quickest did. A round trip would add up the queues of both
/// directions and not tell which one is full.
///
/// The least delay of each period counts, because no frame escaped it: a receiver that was busy
/// elsewhere sees some frames late, a full queue makes all of them late. (CoDel, Nichols and
/// Jacobson, 2012, takes the least for the same reason.) Sender and receiver have different clocks;
/// their offset cancels out, and their drift is allowed for. Thread: one.
class ArrivalDelay {
 public:
  /// Notes a frame that was sent at `sent_ns` of the sender's clock and arrived at `now_ns` of
  /// ours.
  void Note(uint64_t sent_ns, uint64_t now_ns);
  /// Returns the queue of the last whole period; none if nothing arrived in it.
  std::optional<uint64_t> QueueNs(uint64_t now_ns) const;

  /// Length of a period.
  static constexpr uint64_t kPeriodNs = 100'000'000;
  /// Drift that synchronised clocks may still have, in parts per million.
  static constexpr uint64_t kDriftPpm = 20;

 private:
  static constexpr int64_t kNone = INT64_MAX;

  int64_t least_ = kNone;  // since the start, raised by the drift allowed
  uint64_t drifted_ns_ = 0;
  uint64_t period_ = 0;
  int64_t least_now_ = kNone;   // of the period under way
  int64_t least_last_ = kNone;  // of the period before
};

}  // namespace harmonaize::transport
