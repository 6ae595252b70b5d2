#include "daemon/cluster/messages/agent.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"
#include "daemon/cluster/messages/ticket.h"
#include "daemon/identity/job_identity.h"

namespace harmonaize::daemon {

using fields::InRange;
using fields::kMostRanks;

HARMONAIZE_FIELDS(AgentView, number, address, places)
HARMONAIZE_FIELDS(AttachMessage, agent, digest, job, user)
HARMONAIZE_FIELDS(AgentMessage, about, unique, agent, gone)
HARMONAIZE_FIELDS(TieMessage, number, job, user, ranks, status)

static bool IsWholeJob(const std::vector<uint8_t>& job) {
  return IsEncodedJob(job) && !job.empty();
}

static bool IsSound(const AgentView& agent) {
  return agent.number != 0 && InRange(agent.places, kMostRanks + 1);
}

static bool IsSound(const AttachMessage& attach) {
  return IsSound(attach.agent) && attach.digest.size() == kTicketDigestBytes &&
         IsWholeJob(attach.job);
}

static bool IsSound(const AgentMessage& message) {
  return message.about != 0 && message.unique != 0 && IsSound(message.agent);
}

static bool IsSound(const TieMessage& tie) {
  return tie.number != 0 && IsWholeJob(tie.job) && InRange(tie.ranks, kMostRanks + 1);
}

constinit const SubjectCodec kAgentsCodec = fields::CodecOf(AgentsMessages());

}  // namespace harmonaize::daemon
