#pragma once

#include <optional>

#include "daemon/identity/tenant_identity.h"

namespace harmonaize::daemon {

/// Counts the lines that this thread logs as caused by a tenant, for as long as the object exists;
/// LogQueue limits them. Objects nest, and the innermost counts. Requires: the object stands on the
/// stack of the thread.
class LogFor {
 public:
  /// Requires: `tenant` outlives the object.
  explicit LogFor(const TenantIdentity& tenant) : LogFor(&tenant) {}
  /// Takes what Current returned, for work that goes on later or in another thread; nullopt: the
  /// daemon itself. Requires: `tenant` outlives the object.
  explicit LogFor(const std::optional<TenantIdentity>& tenant)
      : LogFor(tenant.has_value() ? &*tenant : nullptr) {}
  ~LogFor() { current_ = before_; }
  LogFor(const LogFor&) = delete;
  LogFor& operator=(const LogFor&) = delete;

  /// Returns the tenant that this thread logs for; nullptr: the daemon itself.
  static const TenantIdentity* Tenant() { return current_; }
  /// Returns a copy of that tenant; nullopt: the daemon itself.
  static std::optional<TenantIdentity> Current() {
    return current_ == nullptr ? std::nullopt : std::optional(*current_);
  }

 private:
  explicit LogFor(const TenantIdentity* tenant) : before_(current_) { current_ = tenant; }

  inline static thread_local const TenantIdentity* current_ = nullptr;

  const TenantIdentity* const before_;
};

}  // namespace harmonaize::daemon
