#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/link.h"
#include "daemon/links/link_state.h"
#include "daemon/sharing/burst_turns.h"
#include "daemon/sharing/floor_book.h"
#include "src/executor/network/fabric_rails.h"
#include "src/planner/fabric_model.h"
#include "src/topology/estimates/link_shares.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// A communicator that the controller has heard of lately, for reports.
struct ControlledJob {
  JobId job;
  double bytes_per_second = 0;  ///< Sent by all of its hosts.
  size_t rails = 0;             ///< Rails that it sends over.
  size_t held_back = 0;         ///< Rails of these on which it is held back.
  uint64_t waits = 0;           ///< Number of its bursts that have waited for others'.
  LinkTerms terms{};            ///< What was granted to it.
  bool floor_refused = false;
  bool floor_missed = false;
};

/// The controller of a cluster: hears from the daemons of all hosts what each job sends over which
/// rail, and what was granted to it. It promises floors (FloorBook), and tells daemons what they
/// may send where jobs meet on a link (LinkShares), and what links have left for each job's plans.
/// One of the cluster's daemons is the controller (Config, cluster.controller).
///
/// Thread: engine. Time is passed in.
class Controller {
 public:
  explicit Controller(std::shared_ptr<const FabricModel> model)
      : model_(std::move(model)),
        rails_(model_->fabric()),
        floors_([this](int edge) { return model_->BytesPerSecond(edge); }) {}

  /// Takes in what a daemon tells of its traffic; peer 0 is this one.
  void Take(transport::PeerId peer, const TrafficMessage& traffic, double now_seconds);
  /// Takes in that a burst is ready to begin, or has ended. Returns the turns that begin then.
  std::vector<BurstTurns::Turn> Take(transport::PeerId peer, const BurstMessage& burst,
                                     double now_seconds) {
    return turns_.Take(peer, burst, now_seconds);
  }
  /// Forgets a peer that is gone. Returns the turns that begin then.
  std::vector<BurstTurns::Turn> Forget(transport::PeerId peer, double now_seconds);

  /// Shares links out, and returns what is to be told to which peer. To be called once in an
  /// interval, or more often; acts once in it. Requires: `links` has taken in the same traffic.
  std::vector<std::pair<transport::PeerId, SharesMessage>> Settle(const LinkState& links,
                                                                  double now_seconds);
  /// Returns the daemon of a host that has told of traffic lately.
  std::optional<transport::PeerId> PeerAt(int fabric_host) const;

  std::vector<ControlledJob> Jobs() const;
  /// Number of daemons that have told of traffic lately.
  size_t hosts() const { return reports_.size(); }

 private:
  struct Report {
    int host = 0;
    double at_seconds = 0;
    std::vector<JobFlow> flows;
    std::vector<uint64_t> homes;  // communicators of which it is the home
    std::vector<JobId> rhythms;   // those whose rhythm it has told
    std::vector<JobId> floors;    // those with a floor whose terms it has told
    std::optional<SharesMessage> told;
    double told_seconds = 0;
  };
  /// A communicator, as all of its hosts tell of it.
  struct Job {
    double weight = 1;  // of the tenant
    LinkTerms terms;
    size_t booked_edges = 0;  // number of its edges when its floor was last booked
    double seen_seconds = 0;
    std::set<std::pair<int, int>> pairs;  // pairs of hosts that it sends between
    std::set<int> edges;                  // edges that it sends over, or could
    EdgeRates left;
    double left_seconds = 0;        // when it was looked at
    double left_since_seconds = 0;  // when it changed
  };
  using Edges = std::shared_ptr<const std::vector<CrossedEdge>>;
  Edges EdgesOf(const FabricRail& rail);
  void NoteJob(const JobFlow& flow, double now_seconds);
  void BookFloors(double now_seconds);
  FloorWord WordOn(const JobId& id) const;
  void Unsettle(int edge, double now_seconds);
  bool IsSettled(const std::set<int>& edges, double now_seconds) const;
  void TakeLeft(double now_seconds);
  EdgeRates LeftFor(const JobId& id, const Job& job);
  double CapacityOf(int edge, const LinkState& links) const;
  void TakeShares(const LinkState& links, double now_seconds);
  std::map<int, std::vector<RailShare>> LimitsByHost() const;
  SharesMessage SharesFor(const Report& report, const LinkState& links,
                          const std::vector<RailShare>& limits);

  const std::shared_ptr<const FabricModel> model_;
  const FabricRails rails_;
  LinkShares shares_;
  FloorBook floors_;
  FloorWatch watch_;
  BurstTurns turns_;
  std::map<FabricRail, Edges> edges_;
  std::map<transport::PeerId, Report> reports_;
  std::map<JobId, Job> jobs_;
  std::unordered_multimap<uint64_t, uint32_t> tenants_of_;  // of jobs_, by communicator
  std::vector<double> unsettled_until_;                     // by edge
  double spent_seconds_ = 0;                                // by the last Settle
  double next_settle_seconds_ = 0;
};

}  // namespace harmonaize::daemon
