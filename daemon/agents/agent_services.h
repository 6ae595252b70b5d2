#pragma once

#include <functional>

namespace harmonaize::daemon {

class Cluster;
class JobAttachments;
class JobCommunicators;
class JobRelay;
class JobTable;
class TicketHome;
struct Job;

/// The parts of the daemon that agents of this host and of others need. They outlive the agents.
struct AgentServices {
  Cluster* cluster = nullptr;  ///< nullptr where this host stands alone.
  JobAttachments* attachments = nullptr;
  const JobCommunicators* by_job = nullptr;
  const JobRelay* relay = nullptr;
  JobTable* jobs = nullptr;
  TicketHome* tickets = nullptr;  ///< This daemon as a home of tickets.
  /// Called with the job of a new tie: the other host may not know yet what this one knows of it.
  std::function<void(Job&)> on_tied = {};
};

}  // namespace harmonaize::daemon
