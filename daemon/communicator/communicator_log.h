#pragma once

#include "daemon/communicator/communicator_observer.h"

namespace harmonaize::daemon {

/// Writes what becomes of communicators into the log, on behalf of their tenants. Thread: engine.
class CommunicatorLog final : public CommunicatorObserver {
 public:
  void OnFormed(const Communicator& communicator, int hosts) override;
  void OnLate(const Communicator& communicator, const std::string& notice) override;
  void OnEnded(const Communicator& communicator) override;
  void OnPlanChanged(const Communicator& communicator, const PlanTransition& change) override;
  void OnCongestionChanged(const Communicator& communicator, CongestionLevel level,
                           double times) override;
  void OnLinksChanged(const Communicator& communicator, bool degraded, double times) override;
};

}  // namespace harmonaize::daemon
