#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/config/config.h"
#include "daemon/formation/communicator_maker.h"
#include "daemon/formation/departures.h"
#include "daemon/formation/doors.h"
#include "daemon/formation/fabric_exchange.h"
#include "daemon/formation/formation_client.h"
#include "daemon/formation/formation_home.h"
#include "daemon/formation/formation_watch.h"
#include "daemon/formation/issued_ids.h"
#include "daemon/formation/late_rounds.h"
#include "daemon/formation/lost_ranks.h"
#include "daemon/formation/membership_services.h"
#include "daemon/formation/pending_formations.h"
#include "daemon/formation/stray_messages.h"
#include "daemon/formation/ticket_client.h"
#include "daemon/formation/ticket_home.h"
#include "daemon/jobs/job_table.h"
#include "daemon/tenant/session.h"
#include "daemon/tenant/session_keeper.h"
#include "src/base/status.h"
#include "src/ipc/unique_id.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// Lets ranks join, split, shrink, grow, leave and die, and hears what other daemons say of that.
/// A communicator that forms has a *home*: the daemon that made the unique id, or at which the
/// parent was formed.
/// FormationClient speaks for the ranks of this host, FormationHome is this daemon as a home.
/// Thread: engine.
class Membership {
 public:
  explicit Membership(const MembershipServices& services);
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// Refuses ids and communicators to processes that have no communicator, with this reason. Those
  /// that have one may go on to make others, as their programs need them.
  void Refuse(std::string why) { refusal_ = std::move(why); }
  /// Takes all processes again.
  void Admit() { refusal_.clear(); }

  /// An id that only ranks of the session's tenant may use.
  Result<UniqueId> CreateId(Session& session);

  // Each returns the number of the member that stands for the caller; kNoMember for a rank that
  // takes part and gets no communicator. Errors that another daemon finds reach the member later.
  /// `on_gpu`: FormationRequest::on_gpu.
  Result<uint32_t> Join(Session& session, const UniqueId& id, int ranks, int rank, bool on_gpu,
                        const std::string& name);
  Result<uint32_t> Split(Session& session, uint32_t member, std::optional<int> color, int key,
                         const std::string& name);
  Result<uint32_t> Shrink(Session& session, uint32_t member, std::vector<int32_t> excluded,
                          bool abort_parent, const std::string& name);
  Result<uint32_t> GrowFrom(Session& session, uint32_t member, int ranks, const std::string& name);
  Result<uint32_t> JoinGrowth(Session& session, const UniqueId& id, int ranks, int rank,
                              const std::string& name);
  /// `done` gets the id, at once or later.
  void CreateGrowId(Session& session, uint32_t member, FormationClient::GrowIdDone done);

  /// The rank takes the communicator down, and stays a member until it leaves.
  Status Abort(Session& session, uint32_t member);
  /// The rank leaves. `done` is called once no operation touches its buffers any more.
  Status Leave(Session& session, uint32_t member, std::function<void()> done);
  Status Revoke(Session& session, uint32_t member);

  /// The session's process is gone, or the daemon has cut it off: its ranks are lost.
  void LoseSession(Session& session, const std::string& why, SessionEnd end);

  /// Clears away what has ended: departures that are complete, communicators without ranks.
  void Sweep();
  /// Sends late notices, fails formations that waited too long, forgets old failures.
  void Tick(uint64_t now_ns);
  /// Returns whether Tick has something to forget, although no rank waits.
  bool remembers_failures() const { return home_.remembers_failures(); }

  /// Has the observer hear of ranks that do not come. Requires: it outlives the last call of this
  /// object.
  void SetObserver(FormationObserver* observer) { watch_.SetObserver(observer); }
  /// Returns what has to hear what becomes of communicators.
  CommunicatorObserver& communicator_observer() { return watch_; }
  /// The communicators that form at this home and wait for ranks.
  const PendingFormations& forming() const { return pending_; }

  /// Doors of processes, by which others of their tenant get communicators with them. A process
  /// that is not admitted opens none and knocks at none.
  Result<OpenDoorReply> OpenDoor(Session& session);
  Result<uint32_t> Knock(Session& session, const UniqueId& door, const std::string& name);
  Result<uint32_t> TakeKnock(Session& session) { return doors_.Take(session); }

  /// Finds out which ranks are gone.
  LostRanks& lost_ranks() { return lost_ranks_; }
  /// Tickets, by which newcomers get places in jobs.
  TicketClient& tickets() { return ticket_client_; }
  /// This daemon as a home of tickets.
  TicketHome& ticket_home() { return ticket_home_; }
  /// Returns the tickets and newcomers of a job that this daemon keeps as its home.
  TicketsMessage tickets_here(const Job& job) { return ticket_home_.List(job); }
  /// As TicketClient::JoinJob, for a process that may have communicators.
  void JoinJob(Session& session, const std::string& job, const std::string& ticket,
               uint32_t wait_ms, TicketClient::PlaceDone done);

  /// The communicator of a ready member of this session.
  Result<Communicator*> Find(Session& session, uint32_t member);

  // The cluster.

  /// Takes in a message of another daemon, or of this one as a home to itself (kThisDaemon).
  void OnMessage(transport::PeerId peer, const ClusterMessage& message);
  /// Ends what the message may have left half done: an exception interrupted OnMessage.
  void GiveUpOn(transport::PeerId peer, const ClusterMessage& message, const Status& exception);
  void OnPeerLost(transport::PeerId peer);

 private:
  Status CheckAdmitted(const Session& session) const;
  void Withdraw(Member* member, const WhyWithdrawn& why);
  bool MayEndLater(Communicator& communicator);
  void OnCommunicatorMessage(transport::PeerId peer, uint64_t key, const ClusterMessage& message);

  const Config& config_;
  Cluster* const cluster_;  ///< nullptr where this host stands alone.
  CommunicatorRegistry& communicators_;
  JobTable& jobs_;
  const CommunicatorObservers& observers_;
  IssuedIds ids_;
  PendingFormations pending_;
  FormationWatch watch_;
  CommunicatorMaker maker_;
  StrayMessages stray_;
  FabricExchange fabric_exchange_;
  TicketHome ticket_home_;
  TicketClient ticket_client_;
  FormationHome home_;
  FormationClient client_;
  Doors doors_;
  Departures departures_;
  LostRanks lost_ranks_;
  LateRounds late_rounds_;
  std::string refusal_;  ///< "": none.
};

}  // namespace harmonaize::daemon
