// harmonaize.h: tickets.

#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "include/harmonaize.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "src/client/operation/communicator.h"
#include "src/client/session/newcomer.h"

namespace harmonaize::shim {
namespace {

static_assert(HZ_TICKET_BYTES == kTicketTextBytes);

/// Returns kInvalidUsage for a communicator of stock NCCL.
Status CheckOurs(ncclComm_t comm) {
  if (comm->carrier.load() == nullptr) return Status::Ok();
  return NotServed("tickets for a communicator that stock NCCL carries",
                   "make a new communicator with the new ranks");
}

/// Runs `body` on a communicator whose job has tickets.
template <typename Body>
ncclResult_t CallOnJob(const char* function, ncclComm_t comm, Body&& body) {
  if (Forwarding()) {
    return Call(function, nullptr,
                [] { return InvalidUsage("calls go to stock NCCL, which has no tickets"); });
  }
  return CallOn(function, comm, [&](Communicator& communicator) {
    HZ_RETURN_IF_ERROR(CheckOurs(comm));
    HZ_RETURN_IF_ERROR(CheckNotSuspended(comm));
    return body(communicator);
  });
}

/// Stores a number, or returns why there is none.
Status StoreNumber(const Result<int>& number, int* out) {
  HZ_RETURN_IF_ERROR(number.status());
  *out = *number;
  return Status::Ok();
}

Status MakeTicketOf(Communicator& communicator, int uses, double seconds, char* out) {
  HZ_RETURN_IF_ERROR(CheckPointer(out, "ticket"));
  if (uses < 1) return InvalidArgument("uses is {}, less than 1", uses);
  if (!(seconds > 0) || !std::isfinite(seconds)) {
    return InvalidArgument("seconds is {}, which is no time for which a ticket can hold", seconds);
  }
  HZ_ASSIGN_OR_RETURN(const std::string ticket, communicator.MakeTicket(uses, seconds));
  std::memcpy(out, ticket.c_str(), ticket.size() + 1);
  return Status::Ok();
}

/// Returns kInProgress while nobody has admitted the newcomer.
Status Join(const char* job, const char* ticket, int timeout_ms, hzPlace_t* place) {
  if (Forwarding()) return InvalidUsage("calls go to stock NCCL, which has no tickets");
  HZ_RETURN_IF_ERROR(CheckPointer(job, "job"));
  HZ_RETURN_IF_ERROR(CheckPointer(place, "place"));
  if (place->size < sizeof(hzPlace_t)) {
    return InvalidArgument("place->size is {}; begin with HZ_PLACE_INITIALIZER", place->size);
  }
  std::string text;
  if (ticket != nullptr) {
    text = ticket;
  } else {
    HZ_ASSIGN_OR_RETURN(text, TicketOfProcess());
  }
  HZ_ASSIGN_OR_RETURN(const std::optional<JoinJobReply> reply, JoinJob(job, text, timeout_ms));
  if (!reply.has_value()) return Status(Code::kInProgress, "nobody has admitted the newcomer yet");
  static_assert(sizeof place->id == sizeof reply->id);
  std::memcpy(&place->id, &reply->id, sizeof place->id);
  place->ranks = reply->ranks;
  place->rank = reply->rank;
  return Status::Ok();
}

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::Communicator;
using harmonaize::Status;
using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_API(ncclResult_t) hzMakeTicket(ncclComm_t comm, int uses, double seconds, char* ticket) {
  return CallOnJob("hzMakeTicket", comm, [&](Communicator& communicator) {
    return MakeTicketOf(communicator, uses, seconds, ticket);
  });
}

HZ_API(ncclResult_t) hzBurnTickets(ncclComm_t comm) {
  return CallOnJob("hzBurnTickets", comm,
                   [](Communicator& communicator) { return communicator.BurnTickets(); });
}

HZ_API(ncclResult_t)
hzJoinJob(const char* job, const char* ticket, int timeout_ms, hzPlace_t* place) {
  // That nobody has admitted it yet is no failure, and leaves no error behind.
  bool waits = false;
  const ncclResult_t result = Call("hzJoinJob", nullptr, [&] {
    const Status status = Join(job, ticket, timeout_ms, place);
    waits = status.code() == harmonaize::Code::kInProgress;
    return waits ? Status::Ok() : status;
  });
  return waits ? ncclInProgress : result;
}

HZ_API(ncclResult_t) hzNewcomers(ncclComm_t comm, int* waiting) {
  return CallOnJob("hzNewcomers", comm, [&](Communicator& communicator) {
    HZ_RETURN_IF_ERROR(CheckPointer(waiting, "waiting"));
    return StoreNumber(communicator.CountNewcomers(), waiting);
  });
}

HZ_API(ncclResult_t) hzAdmit(ncclComm_t comm, int most, int* ranks) {
  return CallOnJob("hzAdmit", comm, [&](Communicator& communicator) -> Status {
    HZ_RETURN_IF_ERROR(CheckPointer(ranks, "ranks"));
    if (most < 0) return harmonaize::InvalidArgument("most is {}, less than 0", most);
    return StoreNumber(communicator.Admit(most), ranks);
  });
}
