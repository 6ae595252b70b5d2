#include "daemon/cluster/messages/tuning.h"

#include <algorithm>

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"
#include "src/planner/tuning_advice.h"

namespace harmonaize::daemon {

HARMONAIZE_FIELDS(TunedRanksMessage, user, nccl_communicator, fabric, host, ranks, here, changes)
HARMONAIZE_FIELDS(TuningProposalMessage, user, nccl_communicator, round, factors, channels,
                  families)
HARMONAIZE_FIELDS(TuningPromiseMessage, user, nccl_communicator, round, from, checkpoints, status)
HARMONAIZE_FIELDS(TuningSettleMessage, user, nccl_communicator, round, commit, from)

static bool IsSound(const TunedRanksMessage& message) {
  return message.host >= 0 && fields::InRange(message.ranks - 1, kMostTunedRanks) &&
         fields::InRange(message.here, int64_t{message.ranks} + 1);
}

static bool IsSound(const TuningProposalMessage& message) {
  return IsSoundAdvice({message.factors, message.channels, message.families});
}

constinit const SubjectCodec kTuningCodec = fields::CodecOf(TuningMessages());

}  // namespace harmonaize::daemon
