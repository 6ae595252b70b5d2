#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/plans/congestion.h"
#include "src/base/status.h"
#include "src/planner/collective_plan.h"

namespace harmonaize::daemon {

class Communicator;
struct Mismatch;

/// The change of one plan.
struct PlanTransition {
  const CollectivePlan& before;
  const CollectivePlan& after;
  bool committed = false;      ///< Otherwise it was called off.
  const std::string& outcome;  ///< "from #12 on", or "called off, ..." with the reason.
  const std::string& why;      ///< The reason for the change.
};

/// How a rank's process has ended, as far as the daemon knows.
enum class RankEnd {
  kUnknown,  ///< The daemon has cut it off, or nothing is known.
  kKilled,   ///< It has gone without a word: it was killed, has crashed, or has called _exit.
  kExited,   ///< It has said that it ends of itself.
  kAborted,  ///< The rank had aborted its communicator before.
};

/// The loss of a rank.
struct RankLoss {
  RankEnd end = RankEnd::kUnknown;
  std::string why = {};  ///< Completes "rank 3 ...", as "died".
  /// What had gone wrong with the communicator before: then the rank is not the cause. Ok: nothing.
  Status failed_before = {};
};

/// A requirement that was granted, and is missed now, or is kept again.
struct RequirementChange {
  std::string_view requirement;  ///< Its key in [collectives], such as "bandwidth_floor".
  bool met = false;
  double granted = 0;  ///< In `unit`, as `measured`.
  double measured = 0;
  std::string_view unit;  ///< "bytes_per_second", "seconds" or another one of docs/events.md.
};

/// Hears what becomes of communicators on this host. Thread: engine.
class CommunicatorObserver {
 public:
  /// A communicator has formed on this many hosts, and its ranks may use it from now on.
  virtual void OnFormed(const Communicator&, int /*hosts*/) {}
  /// Ranks keep others waiting: `notice` says who waits, for how long, and for whom.
  virtual void OnLate(const Communicator&, const std::string& /*notice*/) {}
  /// A collective that OnLate was about begins after all.
  virtual void OnRecovered(const Communicator&) {}
  /// A rank of this host is lost with its process.
  virtual void OnRankLost(const Communicator&, int /*rank*/, const RankLoss&) {}
  /// Ranks disagree about an operation, which fails. Called at the home.
  virtual void OnMismatch(const Communicator&, const Mismatch&) {}
  /// A communicator was broken or revoked, and carries out nothing any more. Called from within
  /// what ended it; for a revoked communicator that breaks later, once more.
  virtual void OnBroken(const Communicator&, const Status& /*why*/) {}
  /// All ranks of a communicator have left, and it is about to go.
  virtual void OnEnded(const Communicator&) {}
  /// This daemon, a communicator's home, has changed a plan of it, or has called that off.
  virtual void OnPlanChanged(const Communicator&, const PlanTransition&) {}
  /// A communicator's operations take this many times as long as on an empty network.
  virtual void OnCongestionChanged(const Communicator&, CongestionLevel, double /*times*/) {}
  /// Links that are cut slow a communicator's operations down, which take this many times as long;
  /// or none is cut any more.
  virtual void OnLinksChanged(const Communicator&, bool /*degraded*/, double /*times*/) {}
  /// A communicator misses a requirement that was granted to its job, or keeps it again. Called at
  /// the home.
  virtual void OnRequirementChanged(const Communicator&, const RequirementChange&) {}

 protected:
  ~CommunicatorObserver() = default;
};

/// The observers, in the order in which they were added.
class CommunicatorObservers {
 public:
  /// Adds an observer. Requires: it outlives this object.
  void Add(CommunicatorObserver* observer) { observers_.push_back(observer); }
  /// Calls `method` of each observer.
  template <typename Method, typename... Arguments>
  void Tell(Method method, const Arguments&... arguments) const {
    for (CommunicatorObserver* observer : observers_) (observer->*method)(arguments...);
  }

 private:
  std::vector<CommunicatorObserver*> observers_;
};

}  // namespace harmonaize::daemon
