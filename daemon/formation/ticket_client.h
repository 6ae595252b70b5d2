#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/messages/ticket.h"
#include "daemon/formation/ticket_desk.h"
#include "daemon/formation/ticket_home.h"
#include "daemon/quota/rate_table.h"
#include "daemon/runtime/waiting_count.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;
class CommunicatorRegistry;
class Session;
struct Job;

/// Asks the homes of jobs for what processes of this host want with tickets: ranks make and burn
/// them and admit newcomers, and newcomers wait for places. Thread: engine.
class TicketClient {
 public:
  /// All of these outlive the client.
  struct Services {
    TicketHome& home;  ///< This daemon as a home.
    const CommunicatorRegistry& communicators;
    WaitingCount& waiting;
    Cluster* cluster;                             ///< nullptr where this host stands alone.
    std::function<void(uint64_t at_ns)> tick_by;  ///< Has Tick called by this time.
  };
  /// A ticket that was made.
  struct Made {
    std::string text;  ///< The secret, for who has asked alone.
    TicketView view;
  };
  /// Who keeps the tickets of a job, or leads to who does.
  struct Way {
    Communicator* communicator = nullptr;  ///< One of the job on this host; nullptr: the others.
    uint64_t about = 0;                    ///< AskTicketsMessage::about for `peer`.
    transport::PeerId peer = 0;            ///< A home of the job.
    const Tenant* tenant = nullptr;
  };
  /// How hosts that have agents of a job are tied to homes of it.
  struct Ties {
    /// Returns the job of which a daemon speaks by this number; nullptr if there is none.
    std::function<Job*(uint64_t about, transport::PeerId peer)> job_of;
    /// Returns a way to a home of a job; nullopt if there is none.
    std::function<std::optional<Way>(const Job&)> way_to;
  };
  using MadeDone = std::function<void(const Result<Made>&)>;
  using Done = std::function<void(const Result<TicketsMessage>&)>;
  /// Gets the place; nullopt if nobody has admitted the newcomer within its wait.
  using PlaceDone = std::function<void(const Result<std::optional<JobPlace>>&)>;

  explicit TicketClient(const Services& services);

  void SetTies(Ties ties) { ties_ = std::move(ties); }

  /// Returns a communicator of the job on this host, one that is whole if there is such; nullptr if
  /// there is none.
  Communicator* CommunicatorOf(const Job& job) const;
  /// Returns the way to the tickets of a job: by that communicator, or else by an agent. Errors:
  /// kInvalidUsage where there is neither.
  Result<Way> WayTo(const Job& job) const;

  // Each of these calls `done` once, at once or later, with the answer of the job's home.
  // `from_here`: a process of this host asks, by its session.

  void Make(const Way& way, bool from_here, int uses, double seconds, MadeDone done);
  /// Burns the tickets of the communicator's job at all of its homes.
  void Burn(Communicator& communicator, Done done);
  /// Does so however often it was done before, and does not wait for the homes. Returns whether all
  /// daemons that have to know have taken it.
  bool BurnEverywhere(Communicator& communicator);
  void List(const Way& way, Done done);
  /// Asks how many newcomers wait: TicketsMessage::waiting.
  void Count(Communicator& communicator, Done done);
  void Admit(Communicator& communicator, int most, Done done);

  /// Lets the session's process wait for a place for up to `wait_ms`, and keeps its turn for some
  /// seconds after that.
  void JoinJob(Session& session, const std::string& job, const std::string& ticket,
               uint32_t wait_ms, PlaceDone done);
  /// The session's process is gone.
  void LoseSession(const Session& session);

  void Tick(uint64_t now_ns);

  // What the cluster says.

  void OnAsk(transport::PeerId peer, const AskTicketsMessage& ask);
  void OnTickets(transport::PeerId peer, const TicketsMessage& answer);
  void OnCome(transport::PeerId peer, const ComeMessage& come);
  void OnPlace(transport::PeerId peer, const PlaceMessage& place);
  void OnGone(transport::PeerId peer, const GoneMessage& gone);
  void OnBurn(transport::PeerId peer, const BurnTicketsMessage& burn);
  void OnPeerLost(transport::PeerId peer);

  /// Tells a newcomer that has come to this home.
  void Tell(const NewcomerKey& newcomer, const Result<JobPlace>& place);

 private:
  struct Call {
    transport::PeerId peer = 0;
    Done done;
  };
  /// A process of this host that waits for a place, or has one.
  struct Newcomer {
    uint64_t call = 0;
    TicketDigest ticket{};
    std::optional<transport::PeerId> peer = {};    ///< None while the home is being reached.
    std::optional<Result<JobPlace>> outcome = {};  ///< None: it waits.
    PlaceDone waits = {};                          ///< nullptr between two calls.
    uint64_t until_ns = 0;  ///< When the call's wait ends; between two calls the newcomer's turn.
    WaitingHold waiting = {};
  };
  using Newcomers = std::map<uint32_t, Newcomer>;  ///< By Session::id.

  void Ask(const Way& way, bool from_here, AskTicketsMessage ask, Done done);
  void AskPeer(const Tenant& tenant, transport::PeerId peer, AskTicketsMessage ask, Done done);
  Result<Newcomer*> Come(Session& session, const std::string& job, const std::string& ticket);
  void OnReached(uint32_t session, const ComeMessage& come, const Result<transport::PeerId>& peer);
  void SendCome(Newcomer* newcomer, transport::PeerId peer, const ComeMessage& come);
  void Conclude(Newcomer* newcomer, const Result<JobPlace>& outcome);
  void Withdraw(Newcomers::iterator newcomer, const char* why);
  Newcomer* FindNewcomer(uint64_t call);
  bool Spread(const Job& job, uint64_t number);

  const Services services_;
  Ties ties_;
  uint64_t next_call_ = 1;
  std::map<uint64_t, Call> calls_;
  Newcomers newcomers_;
  RateTable burnings_;  ///< By tenant.
};

}  // namespace harmonaize::daemon
