#include "daemon/cluster/messages/outcome.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"

namespace harmonaize::daemon::fields {
template <>
inline constexpr int kValueCount<HostProgress> = kHostProgressCount;
}  // namespace harmonaize::daemon::fields

namespace harmonaize::daemon {

using fields::AllBelow;
using fields::AllSound;
using fields::InRange;
using fields::kMostRanks;

HARMONAIZE_FIELDS(BrokenMessage, communicator, revoked, status)
HARMONAIZE_FIELDS(LeftMessage, communicator, rank, sequence)
HARMONAIZE_FIELDS(RankRequest, rank, collective, count, type, op, root)
HARMONAIZE_FIELDS(ProgressMessage, communicator, sequence, state, requests, missing, queued, status)
HARMONAIZE_FIELDS(AskProgressMessage, communicator, sequence)
HARMONAIZE_FIELDS(VerdictMessage, communicator, sequence, status)
HARMONAIZE_FIELDS(LateMessage, communicator, sequence, notice, missing)
HARMONAIZE_FIELDS(BegunCollective, sequence, digest)
HARMONAIZE_FIELDS(BegunMessage, communicator, begun, asks)
HARMONAIZE_FIELDS(AgreedMessage, communicator, sequence)
HARMONAIZE_FIELDS(ClosedMessage, communicator, collectives)

static bool IsSound(const RankRequest& request) {
  return InRange(request.rank, kMostRanks) && !IsPointToPoint(request.collective) &&
         request.root >= -1 && request.root < kMostRanks;
}

static bool IsSound(const ProgressMessage& progress) {
  return AllBelow(progress.missing, kMostRanks) && AllBelow(progress.queued, kMostRanks) &&
         AllSound(progress.requests);
}

static bool IsSound(const LeftMessage& left) {
  return InRange(left.rank, kMostRanks);
}

static bool IsSound(const LateMessage& late) {
  return AllBelow(late.missing, kMostRanks);
}

Status Read(uint64_t kind, const nlohmann::json& document, OutcomeMessage* message) {
  return fields::ReadOneOf(kind, document, message);
}

nlohmann::json Write(const OutcomeMessage& message) {
  return fields::WriteOneOf(message);
}

}  // namespace harmonaize::daemon
