#include "daemon/cluster/messages/checkpoint.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"
#include "daemon/identity/job_identity.h"

namespace harmonaize::daemon {

using fields::AllBelow;
using fields::AllDifferent;
using fields::AllSound;
using fields::InRange;
using fields::IsAmount;
using fields::kMostRanks;

HARMONAIZE_FIELDS(PartSavedMessage, about, rank, round, step, bytes, stall_seconds, at_peer,
                  to_store)
HARMONAIZE_FIELDS(PartStoredMessage, about, round, rank, status)
HARMONAIZE_FIELDS(RoundCompleteMessage, about, round, step, peer_round, stored, not_stored, status)
HARMONAIZE_FIELDS(ChoiceMessage, about, number, choice)
HARMONAIZE_FIELDS(HeldSave, save, step, ranks, complete, kept, saved, bytes, parts)
HARMONAIZE_FIELDS(AskSavesMessage, call, user, job)
HARMONAIZE_FIELDS(SavesMessage, call, saves)
HARMONAIZE_FIELDS(AskPartMessage, call, user, job, save, rank)
HARMONAIZE_FIELDS(PartAtMessage, call, bytes, address, ticket, status)
HARMONAIZE_FIELDS(KeepPartMessage, about, user, job, save, step, round, rank, ranks, kept, saved,
                  bytes, address, ticket)
HARMONAIZE_FIELDS(PartKeptMessage, about, round, rank, status)

static bool IsSound(const PartSavedMessage& part) {
  return part.about != 0 && InRange(part.rank, kMostRanks) && part.round != 0 &&
         part.step <= INT64_MAX && part.bytes <= INT64_MAX && IsAmount(part.stall_seconds);
}

static bool IsSound(const PartStoredMessage& stored) {
  return stored.about != 0 && stored.round != 0 && InRange(stored.rank, kMostRanks);
}

static bool IsSound(const RoundCompleteMessage& message) {
  return message.about != 0 && message.step <= INT64_MAX &&
         (message.round != 0 || !message.status.ok());
}

static bool IsSound(const ChoiceMessage& message) {
  return message.about != 0 && message.number != 0 && message.choice.size() <= kMostChoiceBytes;
}

/// Returns whether these name a rank among so many.
static bool IsRank(int rank, int ranks) {
  return ranks >= 1 && ranks <= kMostRanks && InRange(rank, ranks);
}

static bool IsSound(const HeldSave& save) {
  return save.step <= INT64_MAX && save.ranks >= 1 && save.ranks <= kMostRanks &&
         IsAmount(save.saved) && AllBelow(save.parts, save.ranks) && AllDifferent(save.parts);
}

static bool IsSound(const AskSavesMessage& ask) {
  return ask.call != 0 && IsSomeEncodedJob(ask.job);
}

static bool IsSound(const SavesMessage& answer) {
  return answer.call != 0 && answer.saves.size() <= kMostSavesTold && AllSound(answer.saves);
}

static bool IsSound(const AskPartMessage& ask) {
  return ask.call != 0 && IsSomeEncodedJob(ask.job) && InRange(ask.rank, kMostRanks);
}

static bool IsSound(const PartAtMessage& answer) {
  const bool is_there = !answer.address.empty() && answer.ticket.size() == kTransferTicketBytes &&
                        answer.bytes <= INT64_MAX;
  return answer.call != 0 && (!answer.status.ok() || is_there);
}

static bool IsSound(const KeepPartMessage& keep) {
  const bool is_offered = keep.ticket.size() == kTransferTicketBytes;
  return keep.about != 0 && IsSomeEncodedJob(keep.job) && keep.step <= INT64_MAX &&
         keep.round != 0 && IsRank(keep.rank, keep.ranks) && keep.bytes <= INT64_MAX &&
         IsAmount(keep.saved) && (keep.address.empty() || is_offered);
}

static bool IsSound(const PartKeptMessage& kept) {
  return kept.about != 0 && kept.round != 0 && InRange(kept.rank, kMostRanks);
}

constinit const SubjectCodec kCheckpointCodec = fields::CodecOf(CheckpointMessages());

}  // namespace harmonaize::daemon
