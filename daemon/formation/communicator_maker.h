#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/cluster/roster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/identity/job_identity.h"
#include "daemon/multihost/host_services.h"

namespace harmonaize::daemon {

class CommunicatorRegistry;
class JobTable;
class SessionTable;

/// Makes this host's side of communicators, and tells their ranks that they are ready. Thread:
/// engine.
class CommunicatorMaker {
 public:
  /// What the services name and the references must outlive the maker and its communicators.
  CommunicatorMaker(const HostServices& services, CommunicatorRegistry& communicators,
                    JobTable& jobs, const SessionTable& sessions)
      : services_(services), communicators_(communicators), jobs_(jobs), sessions_(sessions) {}

  /// Makes the communicator, and tells its ranks here that they are ready. `members` is by rank,
  /// with nullptr for ranks on other hosts, which `roster` lists. `job` is the job that it belongs
  /// to. If it throws, there is no communicator.
  Communicator* Make(const std::string& name, const JobIdentity& job, Tenant* tenant,
                     std::vector<Member*> members, std::optional<Roster> roster,
                     CommunicatorHoldings holdings);

 private:
  void UniteGangs(const std::set<uint32_t>& gangs, Communicator* communicator);

  const HostServices services_;
  CommunicatorRegistry& communicators_;
  JobTable& jobs_;
  const SessionTable& sessions_;
};

}  // namespace harmonaize::daemon
