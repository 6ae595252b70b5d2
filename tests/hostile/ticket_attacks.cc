// Tickets: those of nobody, newcomers that never come back, and admissions without a growth.

#include <string>

#include "src/ipc/ticket.h"
#include "tests/hostile/attacks.h"

namespace harmonaize::testing {
namespace {

/// Times that a newcomer says it waits, in milliseconds: not at all, shortly, and without end.
constexpr uint32_t kWaits[] = {0, 1, 5, 0xffffffff};

std::string TicketOfNobody(Attacker& attacker) {
  UniqueId home;
  if (attacker.OneIn(2)) {
    // The seal of this id leads to its daemon, for what it is worth.
    std::optional<HostileSession> session = attacker.Greet();
    if (session.has_value() && attacker.Ask(*session, CreateIdRequest{})) {
      home = session->LastReply<CreateIdReply>().id;
    }
  }
  if (attacker.OneIn(4)) home.reserved[attacker.DrawBelow(home.reserved.size())] ^= 1;
  const Result<Ticket> ticket = MakeTicket(home);
  return ticket.ok() ? TextOfTicket(*ticket) : "";
}

void Come(Attacker& attacker, HostileSession& session, const std::string& ticket) {
  JoinJobRequest request;
  SetFieldText(request.job, attacker.OneIn(4) ? "" : "hostile");
  SetFieldText(request.ticket, ticket);
  // Only a wait that ends leaves time for others.
  request.wait_ms = attacker.DrawOf(kWaits);
  if (!attacker.Ask(session, request)) return;
  if (session.LastReply<JoinJobReply>().admitted != 0 && ticket.empty()) {
    attacker.Report("a newcomer without a ticket was admitted");
  }
}

}  // namespace

void GuessTickets(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<HostileSession> session = attacker.Greet();
    if (!session.has_value()) return;
    for (int i = 0; i < 20 && attacker.TimeLeft() && !attacker.WasCutOff(*session); ++i) {
      const std::string ticket = TicketOfNobody(attacker);
      JoinJobRequest request;
      SetFieldText(request.job, "honest");
      SetFieldText(request.ticket, ticket);
      if (attacker.Ask(*session, request) && session->LastReply<JoinJobReply>().admitted != 0) {
        attacker.Report("a ticket that nobody has made was taken");
      }
    }
  }
}

void UseTicketsWithoutSense(Attacker& attacker) {
  std::optional<Gang> gang =
      Gang::Form(attacker, 1 + static_cast<int>(attacker.DrawBelow(3)), 4096);
  if (!gang.has_value()) return;
  std::string ticket;
  while (attacker.TimeLeft() && !gang->WasCutOff(attacker)) {
    const uint32_t member = attacker.OneIn(4) ? attacker.DrawNumber() : gang->member(0);
    switch (attacker.DrawBelow(6)) {
      case 0: {
        MakeTicketRequest request;
        request.member = member;
        request.uses = static_cast<int32_t>(attacker.DrawNumber());
        request.seconds = attacker.OneIn(4) ? -1 : static_cast<double>(attacker.DrawBelow(4));
        if (attacker.Ask(gang->session(), request)) {
          ticket = FieldText(gang->session().LastReply<MakeTicketReply>().ticket);
        }
        break;
      }
      case 1: {
        BurnTicketsRequest request;
        request.member = member;
        attacker.Ask(gang->session(), request);
        break;
      }
      case 2: {
        AdmitRequest request;
        request.member = member;
        request.most = static_cast<int32_t>(attacker.DrawNumber());
        attacker.Ask(gang->session(), request);
        break;
      }
      case 3: {
        NewcomersRequest request;
        request.member = member;
        attacker.Ask(gang->session(), request);
        break;
      }
      case 4: {
        // A newcomer that is gone as soon as it has come.
        std::optional<HostileSession> newcomer = attacker.Greet();
        if (newcomer.has_value()) Come(attacker, *newcomer, ticket);
        break;
      }
      default: Come(attacker, gang->session(), ticket); break;
    }
  }
}

}  // namespace harmonaize::testing
