#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/elasticity/elastic_policy.h"
#include "perf/elasticity/random.h"
#include "perf/elasticity/trace.h"

namespace harmonaize::elasticity {

/// How tenants answer offers: within seconds, as harmonaize.elastic does between two steps, but for
/// those that decline, and those that answer late.
struct Tenants {
  double declining = 0.1;  ///< The part of the offers that is declined.
  double late = 0.1;       ///< The part of the others that is answered after minutes.
};

struct ClusterOptions {
  int hosts = 16;
  int32_t places_per_host = 8;
  /// Whether jobs behind the first one that waits may begin before it where they do not delay it
  /// (EASY backfilling: Lifka, The ANL/IBM SP Scheduling System, 1995), with their times known
  /// exactly.
  bool backfills = true;
  /// Whether elastic jobs begin with fewer ranks than they ask for where there are too few places.
  bool begins_smaller = false;
  bool makes_offers = false;
  /// How long a job stands still for a change, besides the time for its state.
  double pause_seconds = 0.027;
  /// At which rate a new rank is sent the state; 0: that costs nothing.
  double state_bytes_per_second = 1.25e9;
  double look_seconds = 30;  ///< From one look of the policy to the next.
  Tenants tenants = {};
  uint64_t seed = 1;  ///< Of answers, and of the noise of measured times.
};

/// What became of a job.
struct JobOutcome {
  double arrived_seconds = 0;
  double began_seconds = 0;
  double ended_seconds = 0;
  double rank_seconds = 0;
  int changes = 0;  ///< Of its size.
};

struct Outcome {
  std::vector<JobOutcome> jobs = {};  ///< In the order of the trace.
  double use = 0;  ///< The part of the places that had ranks until the last job came.
  int offers = 0;
  int declined = 0;
};

/// A cluster of hosts that runs a trace of jobs, by simulation: jobs get on at the speed of their
/// size, and the policy of the daemon sees of them what it sees of real ones. Time goes from event
/// to event.
class Cluster {
 public:
  /// `trace` outlives this object.
  Cluster(const std::vector<TraceJob>& trace, const ClusterOptions& options);

  /// Runs all jobs to their ends. To be called once.
  Outcome Run();

 private:
  enum class State : uint8_t { kToCome, kWaiting, kRunning, kDone };
  struct PendingOffer {
    size_t host = 0;
    int32_t ranks = 0;  // negative: they are to leave
    double answered_seconds = 0;
    bool is_declined = false;
  };
  struct Job {
    State state = State::kToCome;
    std::vector<int32_t> ranks = {};  // by host
    int32_t size = 0;
    double steps_left = 0;
    double paused_until_seconds = 0;
    double quiet_until_seconds = 0;
    std::vector<PendingOffer> offers = {};
    std::vector<daemon::SpeedSample> seen = {};  // one of each size, the newest last
  };

  double StepSeconds(size_t i) const;
  double EndOf(size_t i) const;
  double NextEventSeconds() const;
  void Advance(double to_seconds);
  void EndJobs();
  void TakeArrivals();
  void TakeAnswers();
  void Apply(size_t i, const PendingOffer& offer);
  double PauseOf(size_t i) const;

  void BeginJobs();
  int32_t LeastToBegin(size_t i) const;
  std::optional<int32_t> SizeToBegin(size_t i, int32_t places) const;
  void Begin(size_t i, int32_t size);
  double ShadowSeconds(int32_t places, int32_t* spare) const;
  int32_t FreePlaces() const;

  void Look();
  void Measure(size_t i);
  daemon::ElasticWorld World() const;
  void Make(const daemon::ElasticOffer& offer);

  const std::vector<TraceJob>& trace_;
  const ClusterOptions options_;
  daemon::ElasticPolicy policy_;
  Random random_;
  std::vector<Job> jobs_;
  std::vector<size_t> running_;
  std::vector<size_t> waiting_;
  std::vector<int32_t> free_;  // by host; places that are promised are not
  Outcome outcome_;
  double now_seconds_ = 0;
  double next_look_seconds_ = 0;
  double used_place_seconds_ = 0;  // until the last job came
  size_t arrived_ = 0;
};

}  // namespace harmonaize::elasticity
