#pragma once

#include <cstddef>
#include <cstdint>

namespace harmonaize::transport {

/// Tells whether several tenants have sent lately, by any of a daemon's connections. While they do,
/// little is given to the kernel at once: data in the queues of the host's NICs and of switches
/// goes in the order of arrival, whichever tenant it belongs to, and a connection that only one
/// tenant uses fills these queues as well as another.
class TenantMix {
 public:
  void Charge(uint32_t tenant, size_t bytes) {
    if (tenant != last_) before_last_ = sent_;
    last_ = tenant;
    sent_ += bytes;
  }
  /// Returns whether the last kBytes are of more than one tenant.
  bool shared() const { return sent_ - before_last_ < kBytes; }

  /// Number of the last bytes that are looked at.
  static constexpr uint64_t kBytes = uint64_t{2} << 20;

 private:
  uint64_t sent_ = kBytes;
  uint32_t last_ = 0;         // the tenant that has sent last
  uint64_t before_last_ = 0;  // sent_ when it was another tenant
};

}  // namespace harmonaize::transport
