#pragma once

#include <cstddef>
#include <cstdint>

#include "src/transport/message.h"

namespace harmonaize::transport {

/// Tells whether several tenants have sent lately, by any of a daemon's connections. While they do,
/// little is given to the kernel at once: data in the queues of the host's NICs and of switches
/// goes in the order of arrival, whichever tenant it belongs to, and a connection that only one
/// tenant uses fills these queues as well as another.
class TenantMix {
 public:
  void Charge(const TenantShare& share, size_t bytes) {
    // Jobs that have a priority or a floor of their own share as other tenants do.
    const uint64_t who =
        uint64_t{share.floor > 0} << 40 | uint64_t{share.priority} << 32 | share.tenant;
    if (who != last_) before_last_ = sent_;
    last_ = who;
    sent_ += bytes;
  }
  /// Returns whether the last kBytes are of more than one tenant, priority or floor.
  bool shared() const { return sent_ - before_last_ < kBytes; }

  /// Number of the last bytes that are looked at.
  static constexpr uint64_t kBytes = uint64_t{2} << 20;

 private:
  uint64_t sent_ = kBytes;
  uint64_t last_ = 0;         // who has sent last
  uint64_t before_last_ = 0;  // sent_ when it was another one
};

}  // namespace harmonaize::transport
