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

  /// The parts of a new communicator.
  struct Order {
    std::string name = {};
    JobIdentity job = {};  ///< That it belongs to.
    Tenant* tenant = nullptr;
    std::vector<Member*> members = {};  ///< By rank; nullptr: on another host.
    std::optional<Roster> roster = {};  ///< Of one that spans hosts.
    CommunicatorHoldings holdings = {};
    bool all_on_gpu = false;  ///< MemberSlot::all_on_gpu.
  };
  /// Makes the communicator, and tells its ranks here that they are ready. If it throws, there is
  /// no communicator.
  Communicator* Make(Order order);

 private:
  void UniteGangs(const std::set<uint32_t>& gangs, Communicator* communicator);

  const HostServices services_;
  CommunicatorRegistry& communicators_;
  JobTable& jobs_;
  const SessionTable& sessions_;
};

}  // namespace harmonaize::daemon
