#include "daemon/cluster/messages/pair.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"

namespace harmonaize::daemon {

using fields::InRange;
using fields::kMostRanks;

HARMONAIZE_FIELDS(OfferMessage, communicator, from, to, number, count, type, status)
HARMONAIZE_FIELDS(AnswerMessage, communicator, from, to, number, status)

HARMONAIZE_FIELDS(PipesOpenedMessage, communicator, from, to)
HARMONAIZE_FIELDS(PipesClosedMessage, communicator, from, to, pipe, all, notes)

static bool IsSound(const OfferMessage& offer) {
  return InRange(offer.from, kMostRanks) && InRange(offer.to, kMostRanks);
}

static bool IsSound(const AnswerMessage& answer) {
  return InRange(answer.from, kMostRanks) && InRange(answer.to, kMostRanks);
}

static bool IsSound(const PipesOpenedMessage& opened) {
  return InRange(opened.from, kMostRanks) && InRange(opened.to, kMostRanks);
}

static bool IsSound(const PipesClosedMessage& closed) {
  return InRange(closed.from, kMostRanks) && InRange(closed.to, kMostRanks);
}

constinit const SubjectCodec kPairCodec = fields::CodecOf(PairMessages());

}  // namespace harmonaize::daemon
