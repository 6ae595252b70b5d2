#pragma once

#include <optional>

#include "daemon/identity/tenant_identity.h"

namespace harmonaize::daemon {

/// While it exists, the lines that this thread logs count as caused by this tenant: LogQueue limits
/// them. They nest; the innermost counts. Stands on the stack of one thread.
class LogFor {
 public:
  /// Requires: `tenant` outlives the object.
  explicit LogFor(const TenantIdentity& tenant) : LogFor(&tenant) {}
  /// What Current gave, for work that goes on later or in another thread. nullopt: the daemon's
  /// own.
  explicit LogFor(const std::optional<TenantIdentity>& tenant)
      : LogFor(tenant.has_value() ? &*tenant : nullptr) {}
  ~LogFor() { current_ = before_; }
  LogFor(const LogFor&) = delete;
  LogFor& operator=(const LogFor&) = delete;

  /// For whom this thread logs now; nullptr for the daemon itself.
  static const TenantIdentity* Tenant() { return current_; }
  /// A copy of it.
  static std::optional<TenantIdentity> Current() {
    return current_ == nullptr ? std::nullopt : std::optional(*current_);
  }

 private:
  explicit LogFor(const TenantIdentity* tenant) : before_(current_) { current_ = tenant; }

  inline static thread_local const TenantIdentity* current_ = nullptr;

  const TenantIdentity* const before_;
};

}  // namespace harmonaize::daemon
