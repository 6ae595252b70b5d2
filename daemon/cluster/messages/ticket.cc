#include "daemon/cluster/messages/ticket.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"
#include "daemon/identity/job_identity.h"

namespace harmonaize::daemon::fields {
template <>
inline constexpr int kValueCount<TicketAct> = kTicketActCount;
}  // namespace harmonaize::daemon::fields

namespace harmonaize::daemon {

using fields::AllSound;
using fields::InRange;
using fields::IsAmount;
using fields::kMostRanks;

HARMONAIZE_FIELDS(AskTicketsMessage, call, about, user, act, digest, uses, seconds, most)
HARMONAIZE_FIELDS(TicketView, id, uses, made, expires)
HARMONAIZE_FIELDS(TicketsMessage, call, id, tickets, more, waiting, ranks, status)
HARMONAIZE_FIELDS(ComeMessage, call, digest, job, user)
HARMONAIZE_FIELDS(PlaceMessage, call, id, ranks, rank, status)
HARMONAIZE_FIELDS(GoneMessage, call)
HARMONAIZE_FIELDS(BurnTicketsMessage, about, number)

static bool IsSound(const AskTicketsMessage& ask) {
  const size_t digest_bytes = ask.act == TicketAct::kMake ? kTicketDigestBytes : 0;
  return ask.call != 0 && ask.digest.size() == digest_bytes && ask.uses >= 0 && ask.most >= 0 &&
         IsAmount(ask.seconds);
}

static bool IsSound(const TicketView& ticket) {
  return ticket.uses >= 0 && IsAmount(ticket.made) && IsAmount(ticket.expires);
}

static bool IsSound(const TicketsMessage& answer) {
  return answer.call != 0 && answer.tickets.size() <= kMostListedTickets &&
         AllSound(answer.tickets) && answer.more >= 0 && answer.waiting >= 0 &&
         InRange(answer.ranks, kMostRanks + 1);
}

static bool IsSound(const ComeMessage& come) {
  return come.call != 0 && come.digest.size() == kTicketDigestBytes && IsEncodedJob(come.job) &&
         !come.job.empty();
}

static bool IsSound(const PlaceMessage& place) {
  return place.call != 0 && InRange(place.ranks, kMostRanks + 1) && InRange(place.rank, kMostRanks);
}

static bool IsSound(const GoneMessage& gone) {
  return gone.call != 0;
}

constinit const SubjectCodec kTicketCodec = fields::CodecOf(TicketMessages());

}  // namespace harmonaize::daemon
