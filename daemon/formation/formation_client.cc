#include "daemon/formation/formation_client.h"

#include <iterator>
#include <set>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/messages/outcome.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/formation/communicator_maker.h"
#include "daemon/formation/formation_home.h"
#include "daemon/formation/stray_messages.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/session.h"

namespace harmonaize::daemon {
namespace {

/// Bytes of memory that a tenant is charged for a rank: its slot in the session's segment, its
/// queue, its place in a formation.
constexpr int64_t kRankBytes = 4096;

Result<Member*> NewMember(Session& session) {
  HZ_ASSIGN_OR_RETURN(Holding place, session.tenant().account->Take(Resource::kRanks, 1));
  HZ_ASSIGN_OR_RETURN(Holding memory,
                      session.tenant().account->Take(Resource::kMemory, kRankBytes));
  Member* member = session.AddMember();
  if (member == nullptr) {
    return InvalidUsage("this process already holds {} communicators, which is as many as it may",
                        kMaxMembers);
  }
  member->place = std::move(place);
  member->memory = std::move(memory);
  return member;
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// Applying

Result<uint32_t> FormationClient::Apply(Session& session, FormationRequest request) {
  request.user = session.tenant().identity.across_hosts;
  request.claims = session.job_claim().id;
  Member* member = nullptr;
  if (request.gets_communicator()) {
    HZ_ASSIGN_OR_RETURN(member, NewMember(session));
  }
  const uint32_t index = member == nullptr ? kNoMember : member->index;
  const Status status = ApplyAtHome(std::move(request), member);
  if (status.ok()) return index;
  if (member != nullptr) session.RemoveMember(member);
  return status;
}

Status FormationClient::ApplyAtHome(FormationRequest request, Member* member) {
  HZ_ASSIGN_OR_RETURN(const HomeAddress home,
                      HomeFor(request, services_.communicators, services_.cluster));
  if (home.here)
    return services_.home.Apply(
        request, {.member = member, .claims = request.claims, .on_gpu = request.on_gpu});
  ApplyElsewhere(std::move(request), member, home);
  return Status::Ok();
}

void FormationClient::ApplyElsewhere(FormationRequest request, Member* member,
                                     const HomeAddress& home) {
  Cluster& cluster = *services_.cluster;
  ApplyMessage message = EncodeRequest(request, services_.communicators);
  message.address = cluster.address();
  message.host = cluster.host_name();
  if (member != nullptr) {
    message.ticket = next_ticket_++;
    tickets_.emplace(message.ticket, Ticket{member, home.peer, std::move(request)});
    member->ticket = message.ticket;
  }
  if (home.peer.has_value()) return cluster.Send(*home.peer, message);
  cluster.Reach(home.address, [this, message](const Result<transport::PeerId>& peer) {
    OnReached(message.ticket, message, peer);
  });
}

void FormationClient::OnReached(uint64_t number, const ApplyMessage& message,
                                const Result<transport::PeerId>& peer) {
  const auto found = tickets_.find(number);
  if (found == tickets_.end()) return;  // has given up meanwhile
  if (peer.status().code() == Code::kInvalidUsage) {
    return OnRefused(
        std::nullopt,
        {{number}, RemoteError("{}: {}", CallOf(message.kind), peer.status().message())});
  }
  if (!peer.ok()) {
    const bool shrinks = message.kind == FormationKind::kShrink;
    return OnRefused(
        std::nullopt,
        {{number},
         RemoteError("{}: the daemon {} cannot be reached; is its host up, and the daemon there?",
                     CallOf(message.kind),
                     shrinks ? "of the first rank that remains" : "that made the unique id")});
  }
  found->second.peer = *peer;
  services_.cluster->Send(*peer, message);
}

void FormationClient::ApplyAnew(const std::vector<uint64_t>& tickets) {
  for (const uint64_t number : tickets) {
    Ticket ticket = tickets_.extract(number).mapped();
    ticket.member->ticket = 0;
    const Status status = ApplyAtHome(std::move(ticket.request), ticket.member);
    if (!status.ok()) ticket.member->Fail(status);
  }
}

void FormationClient::Withdraw(Member* member, const WhyWithdrawn& why) {
  if (member->ticket == 0) return;
  const auto found = tickets_.find(member->ticket);
  if (found == tickets_.end() || !found->second.peer.has_value()) {  // not even asked yet
    if (found != tickets_.end()) tickets_.erase(found);
    member->ticket = 0;
    return;
  }
  // First what may throw. Where it has formed already, OnFormed finds that the rank is gone.
  const Status status = why(CallOf(found->second.request.kind), "the other ranks");
  const transport::PeerId home = *found->second.peer;
  const uint64_t number = std::exchange(member->ticket, 0);
  tickets_.erase(found);
  services_.cluster->Send(home, WithdrawMessage{number, status});
}

std::vector<uint64_t> FormationClient::RefuseApplicantsAt(transport::PeerId lost) {
  std::vector<uint64_t> refused;
  std::vector<uint64_t> anew;
  for (const auto& [number, ticket] : tickets_) {
    const bool shrinks = ticket.request.kind == FormationKind::kShrink;
    if (ticket.peer == lost) (shrinks ? anew : refused).push_back(number);
  }
  OnRefused(lost,
            {refused,
             RemoteError("the daemon at which the communicator forms does not answer any more")});
  return anew;
}

// ---------------------------------------------------------------------------------------------
// Ids by which communicators grow

void FormationClient::AskGrowId(transport::PeerId home, uint64_t communicator, uint32_t user,
                                GrowIdDone done) {
  const uint64_t ticket = next_ticket_++;
  grow_id_calls_[ticket] = {home, std::move(done)};
  services_.cluster->Send(home, AskGrowIdMessage{ticket, communicator, user});
}

void FormationClient::OnGrowId(transport::PeerId peer, const GrowIdMessage& answer) {
  const auto call = grow_id_calls_.find(answer.ticket);
  if (call == grow_id_calls_.end() || call->second.peer != peer) return;
  const auto done = std::move(call->second.done);
  grow_id_calls_.erase(call);
  const Status status = answer.status;
  if (!status.ok()) return done(status);
  const Result<UniqueId> id = DecodeId(answer.id);
  done(id.ok() ? id : RemoteError("{}", id.status().message()));
}

void FormationClient::FailGrowIdCallsTo(transport::PeerId lost) {
  std::vector<GrowIdDone> unanswered;
  for (auto call = grow_id_calls_.begin(); call != grow_id_calls_.end();) {
    if (call->second.peer == lost) unanswered.push_back(std::move(call->second.done));
    call = call->second.peer == lost ? grow_id_calls_.erase(call) : std::next(call);
  }
  for (const auto& done : unanswered) {
    done(RemoteError("the daemon that looks after the communicator does not answer any more"));
  }
}

// ---------------------------------------------------------------------------------------------
// What homes answer

void FormationClient::OnFormed(transport::PeerId peer, const FormedMessage& formed) {
  if (services_.communicators.FindByKey(formed.communicator) != nullptr) {
    return services_.cluster->transport().Disconnect(peer, "a communicator came twice");
  }
  if (const Status good = CheckTickets(peer, formed); !good.ok()) {
    return services_.cluster->transport().Disconnect(peer, good.message());
  }
  std::vector<Member*> members(formed.host_of_rank.size(), nullptr);
  Tenant* tenant = nullptr;
  std::vector<int> given_up;
  std::set<uint64_t> taken;
  for (const TicketedRank& rank : formed.ranks) {
    const auto ticket = tickets_.find(rank.ticket);
    if (ticket == tickets_.end() || !taken.insert(rank.ticket).second) {
      given_up.push_back(rank.rank);
      continue;
    }
    Member* const member = ticket->second.member;
    members[static_cast<size_t>(rank.rank)] = member;
    tenant = &member->session->tenant();
  }
  if (tenant == nullptr) return OnNobodyLeft(peer, formed);
  std::optional<Roster> roster;
  if (formed.addresses.size() > 1) {
    roster = Roster{.key = formed.communicator,
                    .home = peer,
                    .self = formed.self,
                    .host_of_rank = formed.host_of_rank,
                    .addresses = formed.addresses,
                    .fabric_hosts = formed.fabric_hosts,
                    .peers = std::vector<std::optional<transport::PeerId>>(formed.addresses.size()),
                    .fabric = formed.fabric};
    roster->peers[static_cast<size_t>(formed.self)] = kThisDaemon;
    if (formed.home_host >= 0) roster->peers[static_cast<size_t>(formed.home_host)] = peer;
  }
  Result<CommunicatorHoldings> paid = PayForCommunicator(*tenant->account, members.size());
  const Status charged = paid.status();
  Communicator* const communicator =
      services_.maker.Make({.name = formed.name,
                            .job = DecodeJob(formed.job),
                            .tenant = tenant,
                            .members = std::move(members),
                            .roster = std::move(roster),
                            .holdings = paid.ok() ? std::move(*paid) : CommunicatorHoldings{},
                            .all_on_gpu = formed.all_on_gpu});
  for (const TicketedRank& rank : formed.ranks) tickets_.erase(rank.ticket);
  if (communicator->other_hosts() != nullptr) {
    services_.stray.DeliverTo(communicator, formed.communicator);
  }
  // Others know of it already, so it ends at once.
  if (!charged.ok()) communicator->Break(charged);
  for (const int rank : given_up) {
    communicator->Break(RemoteError("rank {} gave up while the communicator formed", rank));
    communicator->Leave(rank);
  }
}

// A home answers for ranks that have applied at it, and for one tenant at a time.
Status FormationClient::CheckTickets(transport::PeerId peer, const FormedMessage& formed) const {
  const Tenant* tenant = nullptr;
  for (const TicketedRank& rank : formed.ranks) {
    const auto ticket = tickets_.find(rank.ticket);
    if (ticket == tickets_.end()) continue;
    const Tenant* const owner = &ticket->second.member->session->tenant();
    if (ticket->second.peer != peer || (tenant != nullptr && tenant != owner)) {
      return InvalidArgument("a communicator with ranks that did not apply for it");
    }
    tenant = owner;
  }
  return Status::Ok();
}

void FormationClient::GiveUpOn(transport::PeerId peer, const FormedMessage& formed,
                               const Status& exception) {
  RefusedMessage refused{.tickets = {}, .status = exception};
  for (const TicketedRank& rank : formed.ranks) refused.tickets.push_back(rank.ticket);
  OnRefused(peer, refused);
  OnNobodyLeft(peer, formed);
}

// Tells the home that all ranks of this host have given up meanwhile.
void FormationClient::OnNobodyLeft(transport::PeerId peer, const FormedMessage& formed) {
  if (formed.addresses.size() == 1) return;  // nobody else knows of it
  std::vector<int> ranks;
  for (const TicketedRank& rank : formed.ranks) ranks.push_back(rank.rank);
  const Status why = RemoteError("{} gave up while the communicator formed", RankList(ranks));
  services_.cluster->Send(peer, BrokenMessage{formed.communicator, false, why});
  for (const int rank : ranks) {
    services_.cluster->Send(peer, LeftMessage{formed.communicator, rank, 0});
  }
  services_.stray.NoteEnded(formed.communicator, 0);
}

void FormationClient::OnRefused(std::optional<transport::PeerId> peer,
                                const RefusedMessage& refused) {
  const Status why = refused.status.ok() ? RemoteError("the rank was refused") : refused.status;
  for (const uint64_t number : refused.tickets) {
    const auto ticket = tickets_.find(number);
    if (ticket == tickets_.end() || ticket->second.peer != peer) continue;
    Member* const member = ticket->second.member;
    tickets_.erase(ticket);
    member->ticket = 0;
    member->Fail(why);
  }
}

void FormationClient::OnFormingNotice(transport::PeerId peer, const FormingNoticeMessage& notice) {
  for (const uint64_t number : notice.tickets) {
    const auto ticket = tickets_.find(number);
    if (ticket == tickets_.end() || ticket->second.peer != peer) continue;
    ticket->second.member->slot->notice.Set(notice.notice);
  }
}

}  // namespace harmonaize::daemon
