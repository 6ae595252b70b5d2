#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "daemon/quota/holdings.h"
#include "daemon/tenant/tenant.h"
#include "src/base/status.h"
#include "src/ipc/unique_id.h"

namespace harmonaize::daemon {

class Cluster;

/// A unique id that this daemon has given out, and that no communicator has used up.
struct IssuedId {
  uint32_t tenant = 0;      ///< TenantIdentity::across_hosts.
  Tenant* owner = nullptr;  ///< The tenant, who alone may use it.
  Holding place;            ///< What the tenant pays for it.
  uint32_t session = 0;     ///< The session that asked for it; 0: one of another host.
  uint64_t parent = 0;      ///< The communicator that grows by it; 0: a plain id.
};

/// Gives out unique ids, and knows those that it has given out. They are found by the session and
/// by the communicator that they belong to, too: a tenant may have thousands. Thread: engine.
class IssuedIds {
 public:
  /// `cluster` is nullptr where this host stands alone.
  explicit IssuedIds(const Cluster* cluster) : cluster_(cluster) {}

  /// Draws an id that leads here, and that only the tenant may use. `session` and `parent` as in
  /// IssuedId.
  Result<UniqueId> Issue(Tenant* tenant, uint32_t session, uint64_t parent);
  /// Returns OK if a rank of this user may use the id. `tenant` is the rank's tenant; nullptr for a
  /// rank of another host.
  Status CheckUse(const UniqueId& id, uint32_t user, const Tenant* tenant) const;
  /// Returns nullptr for an id that was not given out, or was erased.
  const IssuedId* Find(const UniqueId& id) const;
  void Erase(const UniqueId& id);
  /// Erases the ids that the session has asked for, except those for which `keep` holds.
  void EraseOfSession(uint32_t session, const std::function<bool(const UniqueId&)>& keep);
  /// Erases the ids by which the communicator was to grow.
  void EraseOfParent(uint64_t parent);

 private:
  void Add(const UniqueId& id, IssuedId issued);

  const Cluster* const cluster_;
  std::map<UniqueId, IssuedId> ids_;
  std::map<uint32_t, std::set<UniqueId>> of_session_;
  std::map<uint64_t, std::set<UniqueId>> of_parent_;
};

}  // namespace harmonaize::daemon
