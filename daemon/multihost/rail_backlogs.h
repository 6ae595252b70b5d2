#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace harmonaize::daemon {

/// Tells by which rails parts of messages may go, by what the transport has of each: as much as
/// keeps the rail busy, and no more. What waits above it goes by whichever rail is free first. So a
/// slow rail gets fewer parts, and no message waits long for its part on one. Thread: engine.
class RailBacklogs {
 public:
  /// Returns whether another part may go by this rail.
  bool Admits(size_t rail) const;
  /// Notes that a part has gone to the transport.
  void Add(size_t rail, size_t bytes);
  /// Notes that the transport has handed a part on, `took_ns` after it came there.
  void Remove(size_t rail, size_t bytes, uint64_t took_ns);

  /// Returns the rail that carries most, by its last parts; nullopt if none has carried any.
  std::optional<size_t> Fastest() const;

  /// Bytes that a rail may always have: two parts.
  static constexpr size_t kLeastAllowance = size_t{128} << 10;
  /// Most bytes that a rail may have: what a fast way carries in some hundred microseconds.
  static constexpr size_t kMostAllowance = size_t{4} << 20;
  /// A rail that hands a part on within this time may have more.
  static constexpr uint64_t kQuickNs = 2'000'000;
  /// A rail that takes longer for a part than this has too many.
  static constexpr uint64_t kSlowNs = 10'000'000;

 private:
  struct Rail {
    size_t bytes = 0;  // with the transport
    size_t allowance = 2 * kLeastAllowance;
    double bytes_per_ns = 0;  // as its last parts went
  };
  std::vector<Rail> rails_;
};

}  // namespace harmonaize::daemon
