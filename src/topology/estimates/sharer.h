#pragma once

#include <compare>
#include <cstdint>

namespace harmonaize {

/// A communicator of a tenant, numbered alike on all hosts.
struct JobId {
  uint32_t tenant = 0;
  uint64_t job = 0;
  auto operator<=>(const JobId&) const = default;
};

/// What a communicator was granted on links.
struct LinkTerms {
  /// Communicators of one tenant that have one owner share links as one, and have floor and cap
  /// together.
  uint64_t owner = 0;
  int priority = 0;  ///< Only owners of one priority divide the tenant's weight among themselves.
  /// Rate on each edge that the owner gets before others get more than theirs, in bytes per second;
  /// 0: none.
  double floor = 0;
  double cap = 0;  ///< Rate that the owner does not exceed on any edge; 0: no limit.
  /// Rate on each edge that may be promised to all owners of the tenant together by their floors.
  double tenant_floor = 0;
  /// Rate that all owners of the tenant together do not exceed on any edge; 0: no limit.
  double tenant_cap = 0;

  /// Returns whether there is a floor or a cap.
  bool any() const { return floor > 0 || cap > 0 || tenant_cap > 0; }
};

/// Those among whom links are shared: the communicators of a tenant that have one owner and one
/// priority. However many communicators a job has, it gets no more for that.
struct Sharer {
  uint32_t tenant = 0;
  int priority = 0;
  uint64_t owner = 0;
  auto operator<=>(const Sharer&) const = default;

  static Sharer Of(uint32_t tenant, const LinkTerms& terms) {
    return {tenant, terms.priority, terms.owner};
  }
};

}  // namespace harmonaize
