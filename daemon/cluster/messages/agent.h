#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// Messages about agents: processes of a tenant, one a host, that start and stop ranks of a job. The
// hosts that have ranks of the job know its agents on other hosts, so that these hear of the job
// before they have ranks, and after that.

/// An agent, as the daemons of a job's hosts tell each other of it.
struct AgentView {
  uint64_t number = 0;    ///< Random, not 0: stands for the agent among all daemons.
  std::string address{};  ///< At which other daemons reach that of its host.
  int places = 0;         ///< Number of ranks that it would start now.
};

/// Asks the home of a ticket to let an agent take part in the job. Answered by TieMessage.
struct AttachMessage {
  static constexpr MessageKind kKind = MessageKind::kAttach;
  AgentView agent{};
  std::vector<uint8_t> digest{};  ///< SHA-256 of the ticket's secret.
  std::vector<uint8_t> job{};     ///< The JobIdentity.
  uint32_t user = 0;              ///< The agent's: TenantIdentity::across_hosts.
};

/// An agent as it is now, for the hosts that the job is on. It takes the ways of an EventMessage.
struct AgentMessage {
  static constexpr MessageKind kKind = MessageKind::kAgent;
  uint64_t about =
      0;  ///< Key of the communicator, or number of an agent, by way of which it comes.
  uint64_t unique = 0;  ///< Tells it from all other messages about the job.
  AgentView agent{};
  bool gone = false;  ///< The agent has ended.
};

/// From a home of the job to the agent's host: messages about the job may come and go between the
/// two from now on. It is sent again as long as that holds, also when the job changes its size.
struct TieMessage {
  static constexpr MessageKind kKind = MessageKind::kTie;
  uint64_t number = 0;         ///< AgentView::number.
  std::vector<uint8_t> job{};  ///< The JobIdentity.
  uint32_t user = 0;           ///< The job's: TenantIdentity::across_hosts.
  int ranks = 0;               ///< Of the job's largest communicator.
  Status status{};             ///< Why the tie ends, or is refused.
};

using AgentsMessages = MessageList<AttachMessage, AgentMessage, TieMessage>;

}  // namespace harmonaize::daemon
