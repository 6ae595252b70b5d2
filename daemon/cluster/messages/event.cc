#include "daemon/cluster/messages/event.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"

namespace harmonaize::daemon {

HARMONAIZE_FIELDS(EventMessage, about, unique, type, subject, time_ns, severity, expiry_ns, data)

static bool IsSound(const EventMessage& event) {
  return event.about != 0 && event.unique != 0 && event.time_ns >= 0 && event.expiry_ns >= 0;
}

/// Most statements of which something can be left: one for each key, and for each list.
static constexpr size_t kMostStatements = 256;

HARMONAIZE_FIELDS(StatedRequirements, number, unique, document)
HARMONAIZE_FIELDS(RequirementsMessage, about, forgotten_number, forgotten_unique, statements)

static bool IsSound(const StatedRequirements& statement) {
  return statement.number != 0 && statement.number <= kMostStatementNumber;
}

static bool IsSound(const RequirementsMessage& message) {
  return message.about != 0 && message.forgotten_number <= kMostStatementNumber &&
         message.statements.size() <= kMostStatements && fields::AllSound(message.statements);
}

HARMONAIZE_FIELDS(RequirementsDigestMessage, about, digest)

static bool IsSound(const RequirementsDigestMessage& message) {
  return message.about != 0;
}

HARMONAIZE_FIELDS(AskRequirementsMessage, about)

static bool IsSound(const AskRequirementsMessage& message) {
  return message.about != 0;
}

/// Most bytes of an offer or an answer in a message: those of a record.
static constexpr size_t kMostOfferBytes = 8 << 10;

HARMONAIZE_FIELDS(JobOfferMessage, about, unique, offer, answer, status)

static bool IsSound(const JobOfferMessage& message) {
  return message.about != 0 && message.unique != 0 && message.offer.size() <= kMostOfferBytes;
}

HARMONAIZE_FIELDS(OfferAnswerMessage, about, unique, sending, id, answer)

static bool IsSound(const OfferAnswerMessage& message) {
  return message.about != 0 && message.unique != 0 && message.sending != 0 &&
         message.answer.size() <= kMostOfferBytes;
}

constinit const SubjectCodec kJobCodec = fields::CodecOf(JobMessages());

}  // namespace harmonaize::daemon
