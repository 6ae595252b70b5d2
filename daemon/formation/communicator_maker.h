#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/cluster/roster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/multihost/host_services.h"

namespace harmonaize::daemon {

class CommunicatorRegistry;
class SessionTable;

/// Makes this host's side of communicators, and tells their ranks that they are ready. Thread:
/// engine.
class CommunicatorMaker {
 public:
  /// What the services name and the references must outlive the maker and its communicators.
  CommunicatorMaker(const CommunicatorServices& communicator, const HostServices& hosts,
                    CommunicatorRegistry& communicators, const SessionTable& sessions)
      : communicator_(communicator),
        hosts_(hosts),
        communicators_(communicators),
        sessions_(sessions) {}

  /// `members` by rank; nullptr for those on other hosts, about which `roster` tells.
  Communicator* Make(const std::string& name, Tenant* tenant, std::vector<Member*> members,
                     std::optional<Roster> roster, CommunicatorHoldings holdings);

 private:
  void UniteJobs(const std::set<uint32_t>& jobs, Communicator* communicator);

  const CommunicatorServices communicator_;
  const HostServices hosts_;
  CommunicatorRegistry& communicators_;
  const SessionTable& sessions_;
};

}  // namespace harmonaize::daemon
