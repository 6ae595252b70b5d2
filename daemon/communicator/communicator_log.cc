#include "daemon/communicator/communicator_log.h"

#include "daemon/communicator/communicator.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/log.h"

namespace harmonaize::daemon {

void CommunicatorLog::OnFormed(const Communicator& communicator, int hosts) {
  const LogFor log_for(communicator.tenant().identity);
  Log(LogLevel::kInfo, kLogInit, "communicator {} '{}' of user {}: {} ranks on {} host{}",
      communicator.id(), communicator.name(), communicator.tenant().name(), communicator.ranks(),
      hosts, hosts == 1 ? "" : "s");
}

void CommunicatorLog::OnLate(const Communicator& communicator, const std::string& notice) {
  const LogFor log_for(communicator.tenant().identity);
  Log(LogLevel::kWarning, kLogCollective, "communicator {} '{}': {}", communicator.id(),
      communicator.name(), notice);
}

void CommunicatorLog::OnEnded(const Communicator& communicator) {
  const LogFor log_for(communicator.tenant().identity);
  Log(LogLevel::kInfo, kLogInit, "communicator {} '{}' ended after {} operations",
      communicator.id(), communicator.name(), communicator.operations());
}

void CommunicatorLog::OnPlanChanged(const Communicator& communicator,
                                    const PlanTransition& change) {
  const LogFor log_for(communicator.tenant().identity);
  Log(LogLevel::kInfo, kLogTuning, "communicator {} '{}': {} by {} {}: {}", communicator.id(),
      communicator.name(), CollectiveName(change.after.key.collective), change.after.algorithm,
      change.outcome, change.why);
}

void CommunicatorLog::OnCongestionChanged(const Communicator& communicator, CongestionLevel level,
                                          double times) {
  const LogFor log_for(communicator.tenant().identity);
  Log(LogLevel::kInfo, kLogTuning,
      "communicator {} '{}': congestion is {} now: {:.2f} times as long", communicator.id(),
      communicator.name(), CongestionName(level), times);
}

void CommunicatorLog::OnLinksChanged(const Communicator& communicator, bool degraded,
                                     double times) {
  const LogFor log_for(communicator.tenant().identity);
  Log(LogLevel::kInfo, kLogTuning, "communicator {} '{}': {}: {:.2f} times as long",
      communicator.id(), communicator.name(),
      degraded ? "links that are cut slow it down" : "no link is cut any more", times);
}

}  // namespace harmonaize::daemon
