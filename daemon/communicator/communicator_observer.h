#pragma once

#include <string>
#include <vector>

#include "daemon/plans/congestion.h"
#include "src/base/status.h"
#include "src/planner/collective_plan.h"

namespace harmonaize::daemon {

class Communicator;

/// Hears what becomes of communicators on this host. Thread: engine.
class CommunicatorObserver {
 public:
  /// Its ranks may use it from now on; they are on so many hosts.
  virtual void OnFormed(const Communicator&, int /*hosts*/) {}
  /// Ranks keep others waiting: `notice` says who waits, for how long, and for whom.
  virtual void OnLate(const Communicator&, const std::string& /*notice*/) {}
  /// A collective that OnLate was about begins after all.
  virtual void OnRecovered(const Communicator&) {}
  /// It can do nothing any more. Once, from within what ended it.
  virtual void OnBroken(const Communicator&, const Status& /*why*/) {}
  /// All of its ranks have left; it is about to go.
  virtual void OnEnded(const Communicator&) {}
  /// This daemon is its home, and has changed a plan to this one, or has called that off: `outcome`
  /// says which ("from #12 on", "called off, ..."). `why` is why it was to change.
  virtual void OnPlanChanged(const Communicator&, const CollectivePlan& /*plan*/,
                             const std::string& /*outcome*/, const std::string& /*why*/) {}
  /// Its operations take so many times as long as on an empty network.
  virtual void OnCongestionChanged(const Communicator&, CongestionLevel, double /*times*/) {}

 protected:
  ~CommunicatorObserver() = default;
};

/// All who want to hear, in the order in which they were added.
class CommunicatorObservers {
 public:
  /// The observer must outlive this.
  void Add(CommunicatorObserver* observer) { observers_.push_back(observer); }
  /// Calls `method` of each.
  template <typename Method, typename... Arguments>
  void Tell(Method method, const Arguments&... arguments) const {
    for (CommunicatorObserver* observer : observers_) (observer->*method)(arguments...);
  }

 private:
  std::vector<CommunicatorObserver*> observers_;
};

}  // namespace harmonaize::daemon
