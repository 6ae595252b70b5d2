#include "daemon/formation/ticket_home.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/formation/formation_request.h"
#include "daemon/formation/rank_limits.h"
#include "daemon/jobs/job_table.h"
#include "src/base/clock.h"
#include "src/base/hex.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// The longest time for which a ticket holds, in seconds: thirty days, as a token of the HTTP
/// interface holds by default.
constexpr double kMostTicketSeconds = 30 * 86400.0;
/// Most uses of a ticket: as many as a communicator can have ranks.
constexpr int kMostTicketUses = 1 << 20;
/// How often a user may come with a ticket that is not valid: a program that has an old one tries
/// some times, and nobody finds 256 random bits at any rate.
constexpr RateLimit kWrongTickets{.per_second = 2, .burst = 20};
/// Bytes of the digest that are shown as a ticket's id: no two tickets of a job have the same.
constexpr size_t kShownBytes = 8;

FormationKey GrowthOf(uint64_t parent) {
  return {FormationKey::Kind::kGrow, {}, 0, parent, 0};
}

}  // namespace

TicketHome::TicketHome(const Services& services)
    : services_(services), desk_(services.waiting, services.tell), wrong_(kWrongTickets) {}

TicketsMessage TicketHome::Do(const AskTicketsMessage& ask, Communicator& communicator,
                              bool from_here) {
  TicketsMessage answer{.call = ask.call};
  switch (ask.act) {
    case TicketAct::kMake: answer.status = Make(ask, communicator, from_here, &answer); break;
    case TicketAct::kAdmit: answer.status = Admit(ask.most, communicator, &answer); break;
    case TicketAct::kBurn: break;   // the client burns at all homes
    case TicketAct::kCount: break;  // every answer has the number
    case TicketAct::kList: {
      answer = List(*communicator.job());
      answer.call = ask.call;
      break;
    }
  }
  answer.waiting = desk_.Waiting(JobTable::KeyOf(*communicator.job()), MonotonicNanoseconds());
  return answer;
}

TicketsMessage TicketHome::List(const Job& job) {
  const uint64_t now_ns = MonotonicNanoseconds();
  TicketsMessage list{.tickets = desk_.List(JobTable::KeyOf(job), now_ns)};
  const size_t listed = std::min(list.tickets.size(), kMostListedTickets);
  list.more = static_cast<int>(list.tickets.size() - listed);
  list.tickets.resize(listed);
  list.waiting = desk_.Waiting(JobTable::KeyOf(job), now_ns);
  return list;
}

Status TicketHome::Make(const AskTicketsMessage& ask, Communicator& communicator, bool from_here,
                        TicketsMessage* answer) {
  if (ask.uses < 1 || ask.uses > kMostTicketUses) {
    return InvalidArgument("a ticket has 1 to {} uses, not {}", kMostTicketUses, ask.uses);
  }
  if (!(ask.seconds > 0) || ask.seconds > kMostTicketSeconds) {
    return InvalidArgument("a ticket holds for more than 0 and up to {:.0f} seconds, not for {:g}",
                           kMostTicketSeconds, ask.seconds);
  }
  if (communicator.state() != Communicator::State::kReady) return communicator.failure();
  HZ_ASSIGN_OR_RETURN(UniqueId home, MakeSecretId());
  if (services_.cluster != nullptr) HZ_RETURN_IF_ERROR(services_.cluster->Seal(&home));
  const double now = UnixSeconds();
  const TicketDigest digest = DigestIn(ask.digest);
  const uint64_t now_ns = MonotonicNanoseconds();
  const TicketDesk::Order order{.job = JobTable::KeyOf(*communicator.job()),
                                .owner = &communicator.tenant(),
                                .made_here = from_here,
                                .digest = digest,
                                .uses = ask.uses,
                                .expires_ns = now_ns + static_cast<uint64_t>(ask.seconds * 1e9),
                                .view = {.id = HexOf(std::span(digest).first(kShownBytes)),
                                         .uses = ask.uses,
                                         .made = now,
                                         .expires = now + ask.seconds}};
  HZ_RETURN_IF_ERROR(desk_.Add(order, now_ns));
  answer->id = EncodeId(home);
  answer->tickets = {order.view};
  return Status::Ok();
}

Status TicketHome::Admit(int most, Communicator& communicator, TicketsMessage* answer) {
  if (communicator.state() != Communicator::State::kReady) return communicator.failure();
  const uint64_t parent = communicator.id();
  answer->ranks = desk_.Admitted(parent).value_or(communicator.ranks());
  if (answer->ranks != communicator.ranks()) return Status::Ok();
  const TicketDesk::JobKey job = JobTable::KeyOf(*communicator.job());
  const uint64_t now_ns = MonotonicNanoseconds();
  const int room = kMaxRanks - communicator.ranks();
  const int count = std::min({most, desk_.Waiting(job, now_ns), room});
  if (count < 1) return Status::Ok();
  // Ids of an admission that has failed.
  services_.ids.EraseOfParent(parent);
  HZ_ASSIGN_OR_RETURN(const UniqueId id, services_.ids.Issue(&communicator.tenant(), 0, parent));
  answer->ranks += count;
  desk_.Admit(parent, job, id, communicator.ranks(), count, now_ns + services_.admission_ns);
  return Status::Ok();
}

Result<TicketDesk::JobKey> TicketHome::Check(const TicketDigest& digest, const JobIdentity& job,
                                             uint32_t user, const Tenant* tenant) {
  TicketDesk::JobKey found;
  HZ_RETURN_IF_ERROR(Guarded(digest, {.user = user, .tenant = tenant, .job = job},
                             [&](const TicketDesk::Asker& asker) -> Status {
                               HZ_ASSIGN_OR_RETURN(
                                   found, desk_.Check(digest, asker, MonotonicNanoseconds()));
                               return Status::Ok();
                             }));
  return found;
}

Status TicketHome::Come(const NewcomerKey& newcomer, const ComeMessage& come,
                        const Tenant* tenant) {
  const TicketDigest digest = DigestIn(come.digest);
  return Guarded(digest, {.user = come.user, .tenant = tenant, .job = DecodeJob(come.job)},
                 [&](const TicketDesk::Asker& asker) {
                   return desk_.Come(newcomer, digest, asker, MonotonicNanoseconds());
                 });
}

// Uses a ticket, unless the user has come with wrong ones too often.
Status TicketHome::Guarded(const TicketDigest& digest, const TicketDesk::Asker& asker,
                           const std::function<Status(const TicketDesk::Asker&)>& use) {
  const RateTable::Time now = std::chrono::steady_clock::now();
  const std::string user = std::to_string(asker.user);
  if (const auto wait = wrong_.Look(user, now)) {
    return InvalidUsage("this user comes with wrong tickets too often: try again in {} ms",
                        wait->count());
  }
  Status status = use(asker);
  if (!status.ok() && !desk_.Knows(digest, asker)) wrong_.Take(user, now);
  return status;
}

// ---------------------------------------------------------------------------------------------
// What ends

void TicketHome::FailGrowth(uint64_t parent, const Status& why) {
  // Ranks that wait in the growth are told; those that come to it later by CheckGrowth.
  services_.watch.Fail(GrowthOf(parent), why);
  desk_.EndAdmission(parent, why);
}

void TicketHome::Leave(const NewcomerKey& newcomer, const char* why) {
  const uint64_t parent = desk_.Leave(newcomer);
  if (parent == 0) return;
  FailGrowth(parent, RemoteError("a newcomer that was admitted {}: call hzAdmit again", why));
}

void TicketHome::OnPeerLost(transport::PeerId peer) {
  for (const uint64_t parent : desk_.LeaveAllOf(peer)) {
    FailGrowth(parent, RemoteError("the host of a newcomer that was admitted is lost: call "
                                   "hzAdmit again"));
  }
}

void TicketHome::Burn(const Job& job, const Status& why) {
  desk_.Burn(JobTable::KeyOf(job), why, MonotonicNanoseconds());
}

void TicketHome::Tick(uint64_t now_ns) {
  for (const uint64_t parent : desk_.Tick(now_ns)) {
    FailGrowth(parent, RemoteError("the communicator has not grown in time after hzAdmit: call "
                                   "hzAdmit again"));
  }
}

Status TicketHome::CheckGrowth(const Communicator& parent, int ranks) const {
  return desk_.CheckGrowth(parent.id(), ranks, MonotonicNanoseconds());
}

void TicketHome::OnGrowthEnded(uint64_t parent, const Status& outcome) {
  desk_.EndAdmission(parent, outcome);
}

void TicketHome::OnEnded(const Communicator& communicator) {
  desk_.ForgetParent(communicator.id());
}

void TicketHome::OnJobEnded(const Job& job) {
  Burn(job, InvalidUsage("the job has ended, or has no rank any more that the daemon looks after "
                         "that kept the ticket; a rank of the job makes a new one (hzMakeTicket)"));
}

}  // namespace harmonaize::daemon
