#include "daemon/cluster/messages/checkpoint.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"

namespace harmonaize::daemon {

using fields::InRange;
using fields::kMostRanks;

HARMONAIZE_FIELDS(PartSavedMessage, about, rank, round, step, bytes)
HARMONAIZE_FIELDS(RoundCompleteMessage, about, round, step, status)
HARMONAIZE_FIELDS(ChoiceMessage, about, number, choice)

static bool IsSound(const PartSavedMessage& part) {
  return part.about != 0 && InRange(part.rank, kMostRanks) && part.round != 0 &&
         part.step <= INT64_MAX && part.bytes <= INT64_MAX;
}

static bool IsSound(const RoundCompleteMessage& message) {
  return message.about != 0 && message.step <= INT64_MAX &&
         (message.round != 0 || !message.status.ok());
}

static bool IsSound(const ChoiceMessage& message) {
  return message.about != 0 && message.number != 0 && message.choice.size() <= kMostChoiceBytes;
}

Status Read(uint64_t kind, const nlohmann::json& document, CheckpointMessage* message) {
  return fields::ReadOneOf(kind, document, message);
}

nlohmann::json Write(const CheckpointMessage& message) {
  return fields::WriteOneOf(message);
}

}  // namespace harmonaize::daemon
