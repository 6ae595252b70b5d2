#include "daemon/communicator/communicator_counts.h"

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/inline_segment.h"
#include "daemon/jobs/job_table.h"
#include "daemon/tenant/tenant.h"
#include "src/base/saturating.h"

namespace harmonaize::daemon {

void CommunicatorCounts::OnFormed(const Communicator&, int) {
  ++counts_.formed;
}

void CommunicatorCounts::OnLate(const Communicator&, const std::string&) {
  ++counts_.late;
}

// Ranks that follow the first one are no trouble of their own.
void CommunicatorCounts::OnRankLost(const Communicator&, int, const RankLoss& loss) {
  if (loss.failed_before.ok()) ++counts_.ranks_lost;
}

void CommunicatorCounts::OnMismatch(const Communicator&, const Mismatch&) {
  ++counts_.mismatches;
}

void CommunicatorCounts::OnBroken(const Communicator&, const Status&) {
  ++counts_.broken;
}

void CommunicatorCounts::OnEnded(const Communicator& communicator) {
  ++counts_.ended;
  const InlineSegment* const segment = communicator.inline_segment();
  if (segment == nullptr || communicator.job() == nullptr) return;
  Tenant& tenant = *communicator.job()->tenant;
  tenant.claimed_operations = AddUpTo(tenant.claimed_operations, segment->claimed_operations());
  tenant.claimed_bytes = AddUpTo(tenant.claimed_bytes, segment->claimed_bytes());
}

void CommunicatorCounts::OnPlanChanged(const Communicator&, const PlanTransition& change) {
  ++(change.committed ? counts_.plan_changes : counts_.plan_changes_called_off);
}

void CommunicatorCounts::OnCongestionChanged(const Communicator&, CongestionLevel, double) {
  ++counts_.congestion_changes;
}

}  // namespace harmonaize::daemon
