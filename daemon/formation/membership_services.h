#pragma once

#include "daemon/multihost/host_services.h"

namespace harmonaize::daemon {

class CommunicatorRegistry;
class JobTable;
class SessionTable;
class TenantTable;

/// What membership uses of the daemon, and gives to the communicators that it makes. All of it
/// outlives membership.
struct MembershipServices {
  HostServices hosts;  ///< Without `ranks`, which membership adds.
  CommunicatorRegistry* communicators = nullptr;
  JobTable* jobs = nullptr;
  TenantTable* tenants = nullptr;
  const SessionTable* sessions = nullptr;
};

}  // namespace harmonaize::daemon
