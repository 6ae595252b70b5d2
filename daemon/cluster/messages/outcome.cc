#include "daemon/cluster/messages/outcome.h"

#include <algorithm>
#include <functional>

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
HARMONAIZE_FIELDS(AskLostMessage, call, about, left)
HARMONAIZE_FIELDS(LostMessage, call, known, count, ranks)

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

static bool IsSound(const AskLostMessage& ask) {
  return ask.call != 0 && ask.left.size() <= kMostLostInMessage && AllBelow(ask.left, kMostRanks);
}

static bool IsSound(const LostMessage& lost) {
  const bool rises = std::adjacent_find(lost.ranks.begin(), lost.ranks.end(),
                                        std::greater_equal<>()) == lost.ranks.end();
  return lost.call != 0 && lost.ranks.size() <= kMostLostInMessage && rises &&
         AllBelow(lost.ranks, kMostRanks) && InRange(lost.count, kMostRanks + 1) &&
         static_cast<size_t>(lost.count) >= lost.ranks.size();
}

constinit const SubjectCodec kOutcomeCodec = fields::CodecOf(OutcomeMessages());

}  // namespace harmonaize::daemon
