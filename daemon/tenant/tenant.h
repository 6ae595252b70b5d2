#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/identity/tenant_identity.h"
#include "daemon/quota/holdings.h"

namespace harmonaize::daemon {

struct PostedOperation;
class Session;

/// Parts of one tenant, see ReadyParts.
struct ReadyList {
  std::vector<PostedOperation*> parts;
  size_t first = 0;     ///< The parts before it have been taken.
  bool listed = false;  ///< ReadyParts knows of the tenant.
};

/// Sessions of one tenant whose rings the engine looks at, in turns.
struct HotSessions {
  std::vector<Session*> sessions;
  size_t next = 0;  ///< Index of the session that comes next, modulo their number.
};

/// The bounds of what all jobs of a tenant together have on each link, in bytes per second.
struct LinkBounds {
  double most_floor = 0;  ///< Sum of the floors that are promised to them.
  double most_cap = 0;    ///< Rate that they do not exceed; 0: no bound.

  bool operator==(const LinkBounds&) const = default;
};

/// Returns the bounds that follow from a policy. A floor above the cap could not be kept.
LinkBounds LinkBoundsOf(const TenantPolicy& policy);

/// A tenant as the engine knows it. Thread: engine.
struct Tenant {
  Tenant(TenantIdentity who, std::shared_ptr<Account> its_account)
      : identity(std::move(who)), account(std::move(its_account)) {}

  const TenantIdentity identity;
  const std::shared_ptr<Account> account;
  double weight = 1;  ///< Its weight against other tenants, its priority included: Config::shares.
  LinkBounds link_bounds = {};  ///< By the provider's policy.
  uint64_t operations = 0;      ///< Completed operations, each counted once a communicator.
  uint64_t bytes = 0;           ///< Bytes of those operations, as nccl-tests counts the size.
  /// Time of the executor's threads that its operations have taken, in nanoseconds.
  uint64_t worked_ns = 0;
  /// What the ranks of communicators that have ended say that they did inline. Nobody checks it.
  uint64_t claimed_operations = 0;
  uint64_t claimed_bytes = 0;

  ReadyList ready;
  HotSessions hot;

  std::string name() const { return account->name(); }
};

/// Highest priority, of tenants and of jobs.
inline constexpr int kMostPriority = 3;

/// Returns the weight that the provider has given a tenant, by its number across hosts; 1 if it has
/// given none.
double WeightOf(uint32_t tenant, const std::vector<ShareConfig>& shares);

/// Returns the user's name, or "uid 1000" if it has no name. May wait for a server.
std::string UserName(uid_t user);

/// Returns the shares with `tenant` set to the tenant that each names.
std::vector<ShareConfig> FindTenants(std::vector<ShareConfig> shares, const TenantsConfig& tenants);
/// Returns the policy with `number` set likewise. Both may wait for a server.
PolicyConfig FindPolicyTenants(PolicyConfig policy, const TenantsConfig& tenants);

}  // namespace harmonaize::daemon
