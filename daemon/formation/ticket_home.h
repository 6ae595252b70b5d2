#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "daemon/cluster/messages/ticket.h"
#include "daemon/formation/formation_watch.h"
#include "daemon/formation/issued_ids.h"
#include "daemon/formation/ticket_desk.h"
#include "daemon/quota/rate_table.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;
class CommunicatorRegistry;
class WaitingCount;
struct Job;

/// This daemon as the home of jobs: keeps their tickets, and gives newcomers places in the
/// communicators that grow. Thread: engine.
class TicketHome {
 public:
  /// All of these outlive the home.
  struct Services {
    IssuedIds& ids;
    FormationWatch& watch;
    const CommunicatorRegistry& communicators;
    WaitingCount& waiting;
    const Cluster* cluster;     ///< nullptr where this host stands alone.
    TicketDesk::Tell tell;      ///< Tells newcomers of this host and of others.
    uint64_t admission_ns = 0;  ///< For how long an admission waits for its growth.
  };

  explicit TicketHome(const Services& services);

  /// Does what a process of the communicator's tenant asks for. `from_here`: it is one of this
  /// host. The answer has the question's call.
  TicketsMessage Do(const AskTicketsMessage& ask, Communicator& communicator, bool from_here);
  /// Returns the job's tickets and the number of newcomers that are kept here.
  TicketsMessage List(const Job& job);
  /// Returns the job of a ticket that a process of a user comes with for a job of this id: several
  /// tenants of a user may have one. `tenant` is nullptr for a process of another host. Errors:
  /// those of TicketDesk::Check; the user came with wrong tickets too often.
  Result<TicketDesk::JobKey> Check(const TicketDigest& digest, const JobIdentity& job,
                                   uint32_t user, const Tenant* tenant);
  /// Lets a newcomer wait. `tenant` is nullptr for one of another host. Errors: it is refused.
  Status Come(const NewcomerKey& newcomer, const ComeMessage& come, const Tenant* tenant);
  /// The newcomer does not wait any more, or has died. `why` completes "a newcomer ...".
  void Leave(const NewcomerKey& newcomer, const char* why);
  void OnPeerLost(transport::PeerId peer);
  void Burn(const Job& job, const Status& why);
  void Tick(uint64_t now_ns);

  /// Returns why a rank that comes to the growth of `parent` to so many ranks is refused.
  Status CheckGrowth(const Communicator& parent, int ranks) const;
  /// The growth of a communicator has ended; `outcome` is ok where its ranks have formed.
  void OnGrowthEnded(uint64_t parent, const Status& outcome);
  /// The communicator is about to go.
  void OnEnded(const Communicator& communicator);
  /// Its job has no communicators here any more.
  void OnJobEnded(const Job& job);

 private:
  Status Make(const AskTicketsMessage& ask, Communicator& communicator, bool from_here,
              TicketsMessage* answer);
  Status Admit(int most, Communicator& communicator, TicketsMessage* answer);
  Status Guarded(const TicketDigest& digest, const TicketDesk::Asker& asker,
                 const std::function<Status(const TicketDesk::Asker&)>& use);
  void FailGrowth(uint64_t parent, const Status& why);

  const Services services_;
  TicketDesk desk_;
  RateTable wrong_;  ///< Tickets that were not valid, by the user that came with them.
};

}  // namespace harmonaize::daemon
