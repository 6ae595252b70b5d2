#pragma once

#include <cstdint>

#include "daemon/communicator/communicator_observer.h"

namespace harmonaize::daemon {

/// Counts what becomes of communicators since the daemon started, and keeps for each tenant what
/// the ranks of ended communicators said that they did inline. Thread: engine.
class CommunicatorCounts final : public CommunicatorObserver {
 public:
  struct Counts {
    uint64_t formed = 0;
    uint64_t ended = 0;
    uint64_t broken = 0;      ///< Broken or revoked; one that is both counts twice.
    uint64_t late = 0;        ///< Reports that ranks keep others waiting.
    uint64_t ranks_lost = 0;  ///< Ranks that were lost while nothing else had failed.
    uint64_t mismatches = 0;  ///< Operations about which ranks disagreed, at their homes.
    // Of communicators whose home is here.
    uint64_t plan_changes = 0;
    uint64_t plan_changes_called_off = 0;
    uint64_t congestion_changes = 0;
  };
  const Counts& counts() const { return counts_; }

  void OnFormed(const Communicator& communicator, int hosts) override;
  void OnLate(const Communicator& communicator, const std::string& notice) override;
  void OnRankLost(const Communicator& communicator, int rank, const RankLoss& loss) override;
  void OnMismatch(const Communicator& communicator, const Mismatch& mismatch) override;
  void OnBroken(const Communicator& communicator, const Status& why) override;
  void OnEnded(const Communicator& communicator) override;
  void OnPlanChanged(const Communicator& communicator, const PlanTransition& change) override;
  void OnCongestionChanged(const Communicator& communicator, CongestionLevel level,
                           double times) override;

 private:
  Counts counts_;
};

}  // namespace harmonaize::daemon
