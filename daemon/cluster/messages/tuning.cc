#include "daemon/cluster/messages/tuning.h"

#include <algorithm>

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"
#include "src/planner/tuning_advice.h"

namespace harmonaize::daemon {

HARMONAIZE_FIELDS(TunedRanksMessage, user, communicator, fabric, host, ranks, here, changes)
HARMONAIZE_FIELDS(TuningProposalMessage, user, communicator, round, factors, channels, families)
HARMONAIZE_FIELDS(TuningPromiseMessage, user, communicator, round, from, checkpoints, status)
HARMONAIZE_FIELDS(TuningSettleMessage, user, communicator, round, commit, from)

static bool IsSound(const TunedRanksMessage& message) {
  return message.host >= 0 && fields::InRange(message.ranks - 1, fields::kMostRanks) &&
         fields::InRange(message.here, int64_t{message.ranks} + 1);
}

static bool IsSound(const TuningProposalMessage& message) {
  return IsSoundAdvice({message.factors, message.channels, message.families});
}

Status Read(uint64_t kind, const nlohmann::json& document, TuningMessage* message) {
  return fields::ReadOneOf(kind, document, message);
}

nlohmann::json Write(const TuningMessage& message) {
  return fields::WriteOneOf(message);
}

}  // namespace harmonaize::daemon
