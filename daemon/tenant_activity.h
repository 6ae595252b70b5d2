#pragma once

#include <cstdint>
#include <vector>

#include "daemon/tenant.h"

namespace harmonaize::daemon {

/// Which tenants have operations between hosts, now or lately. For one thread; time is passed in.
class TenantActivity {
 public:
  /// An operation of this tenant starts. Whether another tenant has one under way, or had one less
  /// than kLatelyNs ago.
  bool Start(const Tenant& tenant, uint64_t now_ns);
  void End(const Tenant& tenant, uint64_t now_ns);

  static constexpr uint64_t kLatelyNs = 100'000'000;

 private:
  struct Active {
    uid_t user = 0;
    int under_way = 0;
    uint64_t seen_ns = 0;
  };
  Active* Of(const Tenant& tenant);

  std::vector<Active> active_;
};

}  // namespace harmonaize::daemon
