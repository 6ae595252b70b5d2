#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/links/link_prober.h"
#include "daemon/links/link_state.h"
#include "daemon/links/nic_watch.h"
#include "daemon/links/traffic_meter.h"
#include "daemon/sharing/controller.h"
#include "daemon/sharing/controller_link.h"
#include "daemon/sharing/start_gate.h"
#include "src/transport/transport.h"

namespace harmonaize::daemon {

class Cluster;
class CommunicatorRegistry;
class EventLoop;
class Fabrics;
struct Config;

/// Keeps the plans of running jobs fit for what links carry now (docs/control-loop.md):
///
///     every daemon    looks at its rails ten times a second while communicators are active, and
///                     tells the homes of these what each rail has carried (TrafficMeter)
///     a home          infers which links carry less than the fabric file states (LinkState), has
///                     links probed that may have recovered (LinkProber), and has the plans of its
///                     communicators reviewed when the rates in force change (PlanControl)
///     the controller  where the configuration names one, hears from all, and knows of all jobs: it
///                     shares out the links on which they meet, and tells daemons what these carry,
///                     and have left for each job (Controller); homes then heed that
///                     (ControllerLink)
///
/// Works on the provider's fabric alone: without a fabric file nobody knows which links a rail goes
/// over. At rest nothing is looked at, told or reviewed. Thread: engine.
class ControlLoop final : public StartGate {
 public:
  struct Services {
    const Config* config = nullptr;
    EventLoop* loop = nullptr;  ///< The engine's loop.
    const Fabrics* fabrics = nullptr;
    const CommunicatorRegistry* communicators = nullptr;
    /// Has ReportLate of communicators called at this time at the latest, if something waits.
    std::function<void(uint64_t at_ns)> tick_by;
  };

  /// Requires: all objects that the services name outlive the control loop.
  explicit ControlLoop(Services services) : services_(std::move(services)) {}
  ControlLoop(const ControlLoop&) = delete;
  ControlLoop& operator=(const ControlLoop&) = delete;

  /// A part of the daemon that follows links, beside the plans of communicators.
  struct Follower {
    /// Returns the homes that are to hear of this host's traffic because of it.
    std::function<std::set<transport::PeerId>()> homes = [] {
      return std::set<transport::PeerId>();
    };
    /// Takes in what links carry where that is not what the fabric states.
    std::function<void(const EdgeRates&, uint64_t now_ns)> on_rates = [](const EdgeRates&,
                                                                         uint64_t) {};
  };
  /// Serves a follower from now on, in the place of an earlier one.
  void Serve(Follower follower) { follower_ = std::move(follower); }

  /// Begins, since the cluster has been joined. Requires: the cluster outlives the control loop.
  void Begin(Cluster* cluster);
  /// Returns whether there is a fabric file, and the provider wants plans to follow its links.
  bool active() const { return self_ >= 0; }
  /// Returns whether Tick is to be called although no operation is under way.
  bool busy() const { return prober_ != nullptr && prober_->busy(); }
  /// Looks at the traffic and tells of it. To be called often while operations are under way; acts
  /// once in an interval.
  void Tick(uint64_t now_ns);
  void OnMessage(transport::PeerId peer, const ClusterMessage& message);
  void OnPeerLost(transport::PeerId peer);

  bool MayBegin(Communicator& communicator) override;
  void NoteEnd(Communicator& communicator) override;

  /// Returns the largest floor that can be promised to a job on this host, in bytes per second.
  /// Errors: kInvalidArgument if none can be, with a reason that tenants may read.
  Result<double> MostFloor() const;
  /// Returns whether the floor of a communicator's job holds, or would as far as is known: the
  /// controller decides when the job sends. Errors: kUnavailable if the controller has refused it,
  /// with a reason that tenants may read.
  Status FloorOf(const Communicator& communicator) const;

  /// nullptr if no NICs are looked at.
  NicWatch* nics() const { return nics_.get(); }
  /// At a home, or the controller, that was told of traffic; else nullptr.
  const LinkState* links() const { return links_.get(); }
  /// nullptr unless this daemon is the controller.
  const Controller* controller() const { return controller_.get(); }
  /// nullptr if the cluster has no controller.
  const ControllerLink* controller_link() const { return controller_link_.get(); }

 private:
  /// The hosts of active communicators, and the homes that are to be told of them.
  struct Active {
    std::map<transport::PeerId, int> hosts;  // by peer: its host in the fabric
    std::set<transport::PeerId> homes;       // 0: this daemon
    std::vector<uint64_t> own;               // communicators of which this daemon is the home
    std::vector<Communicator*> led;          // communicators whose rank 0 is here
  };
  void WatchNics();
  Active FindActive(uint64_t now_ns);
  bool IsActive(Communicator& communicator, uint64_t now_ns);
  TrafficMessage LookAtTraffic(const Active& active, uint64_t now_ns);
  void AddTerms(const std::set<uint64_t>& communicators, TrafficMessage* traffic) const;
  void TellTraffic(const Active& active, uint64_t now_ns);
  /// Tells a peer; peer 0 is this daemon.
  void Tell(transport::PeerId peer, const ClusterMessage& message);
  /// Returns the controller's peer; nullopt while it is not linked, or if there is none.
  std::optional<transport::PeerId> ControllersPeer() const;
  bool IsController(transport::PeerId peer, uint64_t fabric) const;
  void OnTraffic(transport::PeerId peer, const TrafficMessage& traffic);
  void ShareOut(uint64_t now_ns);
  void TellTurns(const std::vector<BurstTurns::Turn>& turns);
  void OnBurst(transport::PeerId peer, const BurstMessage& burst);
  void OnTurn(transport::PeerId peer, const BurstTurnMessage& turn);
  void TellBurst(Communicator& communicator, bool ended);
  void OnShares(transport::PeerId peer, const SharesMessage& shares);
  void HeedFloor(const FloorWord& word);
  void LogLinks(uint64_t now_ns);
  void OnAskLinkProbe(transport::PeerId peer, const AskLinkProbeMessage& question);
  void ReviewPlans(uint64_t now_ns);
  void ProbeIfDue(uint64_t now_ns);
  void OnProbed(uint64_t probe, double bytes_per_second);
  std::optional<transport::PeerId> PeerAt(int fabric_host) const;

  const Services services_;
  Cluster* cluster_ = nullptr;  // nullptr: no cluster was joined
  int self_ = -1;               // this host in the fabric
  Follower follower_;
  TrafficMeter meter_;
  std::unique_ptr<NicWatch> nics_;
  std::map<uint64_t, uint64_t> begun_;  // by communicator: begun collectives and messages at the
                                        // last look
  uint64_t next_look_ns_ = 0;
  uint64_t told_ns_ = 0;                           // when another daemon told of traffic
  std::map<transport::PeerId, int> host_of_peer_;  // of active communicators

  std::unique_ptr<LinkProber> prober_;
  std::unique_ptr<LinkState> links_;
  uint64_t next_log_ns_ = 0;
  std::unique_ptr<Controller> controller_;
  std::unique_ptr<ControllerLink> controller_link_;
  std::set<uint64_t> missed_floors_;  // communicators of this home that miss their floors
  struct Asked {
    FabricRail rail;
    uint64_t asked_ns = 0;
  };
  std::map<uint64_t, Asked> asked_;  // at a home, by number
};

}  // namespace harmonaize::daemon
