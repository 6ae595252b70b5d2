#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/metrics/engine_facts.h"

namespace harmonaize::daemon {

/// A tenant, or the sum of several, under the name that metrics have for it.
struct NamedTenant {
  std::string label;
  TenantFacts facts;
};

/// Decides which tenants metrics name, since a monitoring system keeps each name for long: a
/// bounded number of them, and the sum of all others under kOthers. A tenant keeps its place until
/// another one needs it and it holds nothing on this host. No counter ever falls: what a tenant did
/// while it was named is no part of the sum. Thread: one.
class TenantSeries {
 public:
  /// `most` is the number of tenants that are named.
  explicit TenantSeries(size_t most) : most_(most) {}

  /// Takes in the tenants as they are now, and returns what metrics tell of them, with the sum at
  /// the end. Labels are clean text and differ from each other.
  std::vector<NamedTenant> Name(const std::vector<TenantFacts>& tenants);

  static constexpr char kOthers[] = "other";

 private:
  struct Known {
    TenantUsage last;  ///< As of the last call.
    bool is_named = false;
    uint64_t active_at = 0;  ///< The call at which it held something last.
  };

  void GivePlaces(const std::vector<TenantFacts>& tenants);
  bool FreeOnePlace();

  const size_t most_;
  size_t named_ = 0;
  uint64_t calls_ = 0;
  std::map<uint32_t, Known> known_;  // by TenantIdentity::number
  TenantUsage others_;
};

}  // namespace harmonaize::daemon
