#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "daemon/cluster/messages/link.h"
#include "daemon/cluster/this_daemon.h"
#include "src/topology/estimates/link_shares.h"
#include "src/topology/fabric/fabric_rail.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// At the controller: lets jobs that compute and send by turns send one after the other where their
/// bursts collide on links. Such jobs ask before each burst. A job waits if a neighbour that sends
/// is nearer to its end than the newcomer would be. It loses nothing by that, for it would have had
/// to share the link until then, and its neighbour is done earlier: shortest remaining time first
/// (L. Schrage, "A proof of the optimality of the shortest remaining processing time discipline",
/// Operations Research, 1968). Jobs of one period so come to send while the others compute, as in
/// Rajasekaran et al., "CASSINI: network-aware job scheduling in machine learning clusters", NSDI
/// 2024, and stay that way although their times waver. Of those who wait, the tenant comes first
/// that has had no turn for longest, however many of its jobs wait.
///
/// Thread: engine. Time is passed in.
class BurstTurns {
 public:
  using Edges = std::shared_ptr<const std::vector<CrossedEdge>>;

  /// Takes in what a job has sent over a rail, as its host counts it; the count may begin anew.
  void TakeSent(const JobId& id, const FabricRail& rail, const Edges& edges, const TrafficJob& told,
                double now_seconds);
  /// Takes in a job's rhythm, as its leader tells it: the daemon of the host that has the job's
  /// rank 0.
  void TakeRhythm(const TrafficRhythm& rhythm, double now_seconds);

  /// Returns what an edge can carry, in bytes a second.
  using Capacity = std::function<double(int edge)>;
  /// Finds out at times which jobs collide. To be called often, but not while the controller rests.
  /// `answer_seconds` is how long the controller may be busy with other things.
  void Settle(const Capacity& capacity, double answer_seconds, double now_seconds);

  /// Returns the longest time, in seconds, that a job should wait for its turn; 0: it need not ask.
  double LongestWait(const JobId& id) const;
  /// A burst that may begin, and the daemon that is to be told.
  struct Turn {
    transport::PeerId leader = kThisDaemon;
    uint64_t communicator = 0;
    uint64_t burst = 0;
  };
  /// Takes in that a leader asks for a burst's turn, or that the burst has ended. Returns the turns
  /// that begin then.
  std::vector<Turn> Take(transport::PeerId leader, const BurstMessage& message, double now_seconds);
  /// Stops waiting for the jobs of a daemon that is gone. Returns the turns that begin then.
  std::vector<Turn> Forget(transport::PeerId leader, double now_seconds);

  /// What a job sends over a rail in the mean of its turns; in each of its bursts it would seem
  /// greedy.
  struct Mean {
    double bytes_per_second = 0;
    double sending = 1;  ///< Fraction of the time in which it sends.
  };
  /// Returns nullopt for a job whose turns are not known, or do not matter. A job that sends more
  /// in its present burst than in those before has no known turns.
  std::optional<Mean> MeanOf(const JobId& id, const FabricRail& rail) const;
  /// Returns how often a job's bursts have waited for others'.
  uint64_t WaitsOf(const JobId& id) const;

 private:
  struct Sent {
    Edges edges;
    uint64_t counted = 0;  // as told last
    double in_window = 0;  // bytes
    double mean = 0;       // bytes a second
  };
  enum class State { kComputes, kWaits, kSends };
  struct Job {
    double weight = 1;
    std::map<FabricRail, Sent> sent{};
    double seen_seconds = 0;

    TrafficRhythm rhythm{};  // no bursts: never told
    double told_seconds = 0;
    double window_begun = 0;  // bursts by then
    double burst_bytes = 0;   // of a burst, as measured
    double in_burst = 0;      // bytes that it has sent since its burst began

    /// Seconds that a burst takes with its links to itself; 0: not known, or of no use.
    double alone_seconds = 0;
    std::map<int, double> parts{};  // by edge: fraction of its capacity that a burst then takes
    std::set<JobId> neighbours{};   // jobs with which it collides; all are in jobs_

    State state = State::kComputes;
    transport::PeerId leader = kThisDaemon;
    uint64_t burst = 0;
    double since_seconds = 0;  // when it began to wait, or to send
    uint64_t waits = 0;
  };
  using Jobs = std::map<JobId, Job>;

  static bool HasRhythm(const Job& job, double now_seconds);
  static double BurstsOf(const Job& job);
  static bool ExceedsBurst(const Job& job);
  static void BeginWindow(Job* job);
  static void Measure(Job* job, const Capacity& capacity, double least_burst);
  void FindNeighbours();
  bool MustWait(const Job& job, double now_seconds) const;
  std::vector<Turn> GiveTurns(const std::set<JobId>& jobs, double now_seconds);

  Jobs jobs_;
  std::map<uint32_t, double> turned_seconds_;  // when a tenant was given a turn last, after waiting
  double next_seconds_ = 0;
};

}  // namespace harmonaize::daemon
