#include "daemon/cluster/messages/diagnosis.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"

namespace harmonaize::daemon::fields {
template <>
inline constexpr int kValueCount<Awaited> = kAwaitedCount;
template <>
inline constexpr int kValueCount<Doing> = kDoingCount;
template <>
inline constexpr int kValueCount<HangClass> = kHangClassCount;
}  // namespace harmonaize::daemon::fields

namespace harmonaize::daemon {

using fields::AllBelow;
using fields::AllSound;
using fields::InRange;
using fields::kMostRanks;

namespace {

/// The longest time in a message: a hundred years, in milliseconds, so that its nanoseconds fit.
constexpr uint64_t kMostMilliseconds = uint64_t{100} * 365 * 24 * 3600 * 1000;

}  // namespace

HARMONAIZE_FIELDS(OperationKey, pair, sequence, from, to)
HARMONAIZE_FIELDS(HangRoot, rank, communicator, hang, doing)
HARMONAIZE_FIELDS(RankStanding, rank, awaited, doing, behind)
HARMONAIZE_FIELDS(AskStandingMessage, about, operation)
HARMONAIZE_FIELDS(StandingMessage, about, operation, name, waits, under_way, waited_ms,
                  late_after_ms, usual_ms, senders, ranks)
HARMONAIZE_FIELDS(HangMessage, about, operation, name, hang, waited_ms, roots, notice, waits_for,
                  stage)

static bool IsSound(const OperationKey& key) {
  if (!key.pair) return key.from == -1 && key.to == -1;
  return key.sequence == 0 && InRange(key.from, kMostRanks) && InRange(key.to, kMostRanks);
}

static bool IsSound(const HangRoot& root) {
  return InRange(root.rank, kMostRanks);
}

static bool IsSound(const RankStanding& standing) {
  return InRange(standing.rank, kMostRanks) && standing.behind.size() <= kMostRoots &&
         AllSound(standing.behind);
}

static bool IsSound(const AskStandingMessage& question) {
  return IsSound(question.operation);
}

static bool IsSound(const StandingMessage& standing) {
  return IsSound(standing.operation) && standing.waited_ms <= kMostMilliseconds &&
         standing.late_after_ms <= kMostMilliseconds && standing.usual_ms <= kMostMilliseconds &&
         standing.senders.size() <= kMostStandings && AllBelow(standing.senders, kMostRanks) &&
         standing.ranks.size() <= kMostStandings && AllSound(standing.ranks);
}

static bool IsSound(const HangMessage& hang) {
  return IsSound(hang.operation) && hang.waited_ms <= kMostMilliseconds &&
         hang.roots.size() <= kMostRoots && AllSound(hang.roots) &&
         hang.waits_for.size() <= kMostStandings && AllBelow(hang.waits_for, kMostRanks);
}

constinit const SubjectCodec kDiagnosisCodec = fields::CodecOf(DiagnosisMessages());

}  // namespace harmonaize::daemon
