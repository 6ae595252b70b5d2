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
  size_t first = 0;     ///< Those before it have been taken.
  bool listed = false;  ///< ReadyParts knows of the tenant.
};

/// Sessions of one tenant whose rings the engine looks at, in turns.
struct HotSessions {
  std::vector<Session*> sessions;
  size_t next = 0;  ///< The one that comes next, modulo their number.
};

/// A tenant as the engine knows it. Engine thread only.
struct Tenant {
  Tenant(TenantIdentity who, std::shared_ptr<Account> its_account)
      : identity(std::move(who)), account(std::move(its_account)) {}

  const TenantIdentity identity;
  const std::shared_ptr<Account> account;
  double weight = 1;  ///< Its share of what others want too, with its priority: Config::shares.
  uint64_t operations = 0;  ///< Completed, counted once a communicator.
  uint64_t bytes = 0;       ///< Of those operations, as nccl-tests counts the size.

  ReadyList ready;
  HotSessions hot;

  std::string name() const { return account->name(); }
};

/// What the provider has decided for a tenant, by its number across hosts; 1 where it has not.
double WeightOf(uint32_t tenant, const std::vector<ShareConfig>& shares);

/// The user's name, or its number. May ask a server for it, and wait.
std::string UserName(uid_t user);

/// The same shares, with the tenants that they name.
std::vector<ShareConfig> FindTenants(std::vector<ShareConfig> shares, const TenantsConfig& tenants);

}  // namespace harmonaize::daemon
