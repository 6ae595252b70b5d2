#include "daemon/job_events/job_attachments.h"

namespace harmonaize::daemon {

void JobAttachments::Add(Job* job, uint64_t agent, transport::PeerId peer) {
  Remove(agent, peer);
  ties_[{agent, peer}] = job;
  of_job_[job].insert({agent, peer});
}

void JobAttachments::Remove(uint64_t agent, transport::PeerId peer) {
  const auto tie = ties_.find({agent, peer});
  if (tie == ties_.end()) return;
  const auto of_job = of_job_.find(tie->second);
  of_job->second.erase(tie->first);
  if (of_job->second.empty()) of_job_.erase(of_job);
  ties_.erase(tie);
}

Job* JobAttachments::JobOf(uint64_t agent, transport::PeerId peer) const {
  const auto tie = ties_.find({agent, peer});
  return tie == ties_.end() ? nullptr : tie->second;
}

}  // namespace harmonaize::daemon
