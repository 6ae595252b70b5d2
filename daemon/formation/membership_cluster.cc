// The part of Membership that other daemons take part in.

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/formation/membership.h"
#include "daemon/multihost/host_group.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/tenant_table.h"

namespace harmonaize::daemon {
namespace {

template <typename... Calls>
struct Overloaded : Calls... {
  using Calls::operator()...;
};
template <typename... Calls>
Overloaded(Calls...) -> Overloaded<Calls...>;

}  // namespace

// ---------------------------------------------------------------------------------------------
// At the home

void Membership::OnApply(transport::PeerId peer, const ApplyMessage& request) {
  Communicator* const parent =
      request.communicator == 0 ? nullptr : communicators_.FindByKey(request.communicator);
  const Applicant applicant{
      .peer = peer, .ticket = request.ticket, .address = request.address, .host = request.host};
  const Status status = Apply(request, applicant, parent);
  if (!status.ok()) watch_.Refuse(applicant, status);
}

void Membership::OnAskGrowId(transport::PeerId peer, const AskGrowIdMessage& question) {
  GrowIdMessage answer{.ticket = question.ticket};
  const Communicator* const parent = communicators_.FindByKey(question.communicator);
  Result<UniqueId> id = InvalidUsage("the communicator is gone");
  if (parent != nullptr) {
    id = issued_.Issue(services_.tenants->AcrossHosts(question.user), 0, parent->id());
  }
  if (id.ok()) {
    answer.id.resize(sizeof(UniqueId));
    std::memcpy(answer.id.data(), &*id, sizeof(UniqueId));
  } else {
    answer.status = id.status();
  }
  cluster_->Send(peer, answer);
}

// ---------------------------------------------------------------------------------------------
// At the others

void Membership::OnFormed(transport::PeerId peer, const FormedMessage& formed) {
  if (communicators_.FindByKey(formed.communicator) != nullptr) {
    return cluster_->transport().Disconnect(peer, "a communicator came twice");
  }
  if (const Status good = CheckTickets(peer, formed); !good.ok()) {
    return cluster_->transport().Disconnect(peer, good.message());
  }
  std::vector<Member*> members(formed.host_of_rank.size(), nullptr);
  Tenant* tenant = nullptr;
  std::vector<int> given_up;
  for (const TicketedRank& rank : formed.ranks) {
    const auto ticket = tickets_.extract(rank.ticket);
    if (ticket.empty()) {
      given_up.push_back(rank.rank);
      continue;
    }
    Member* const member = ticket.mapped().member;
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
                    .peers = std::vector<transport::PeerId>(formed.addresses.size(), 0),
                    .fabric = formed.fabric};
    if (formed.home_host >= 0) roster->peers[static_cast<size_t>(formed.home_host)] = peer;
  }
  Result<CommunicatorHoldings> paid = PayForCommunicator(*tenant->account, members.size());
  const Status charged = paid.status();
  Communicator* const communicator =
      maker_.Make(formed.name, tenant, std::move(members), std::move(roster),
                  paid.ok() ? std::move(*paid) : CommunicatorHoldings{});
  stray_.DeliverTo(communicator, formed.communicator);
  // Others know of it already, so it ends at once.
  if (!charged.ok()) communicator->Break(charged);
  for (const int rank : given_up) {
    communicator->Break(RemoteError("rank {} gave up while the communicator formed", rank));
    communicator->Leave(rank);
  }
}

// A daemon speaks for what its own ranks applied for at it, and for one tenant at a time.
Status Membership::CheckTickets(transport::PeerId peer, const FormedMessage& formed) const {
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

// All ranks that this host was to have have given up meanwhile.
void Membership::OnNobodyLeft(transport::PeerId peer, const FormedMessage& formed) {
  if (formed.addresses.size() == 1) return;  // nobody else knows of it
  std::vector<int> ranks;
  for (const TicketedRank& rank : formed.ranks) ranks.push_back(rank.rank);
  const Status why = RemoteError("{} gave up while the communicator formed", RankList(ranks));
  cluster_->Send(peer, BrokenMessage{formed.communicator, false, why});
  for (const int rank : ranks) {
    cluster_->Send(peer, LeftMessage{formed.communicator, rank, 0});
  }
  stray_.NoteEnded(formed.communicator, 0);
  stray_.DropKeptFor(formed.communicator);
}

void Membership::OnRefused(std::optional<transport::PeerId> peer, const RefusedMessage& refused) {
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

void Membership::OnFormingNotice(transport::PeerId peer, const FormingNoticeMessage& notice) {
  for (const uint64_t number : notice.tickets) {
    const auto ticket = tickets_.find(number);
    if (ticket == tickets_.end() || ticket->second.peer != peer) continue;
    ticket->second.member->slot->notice.Set(notice.notice);
  }
}

void Membership::OnGrowId(transport::PeerId peer, const GrowIdMessage& answer) {
  const auto call = grow_id_calls_.find(answer.ticket);
  if (call == grow_id_calls_.end() || call->second.peer != peer) return;
  const auto done = std::move(call->second.done);
  grow_id_calls_.erase(call);
  UniqueId id;
  const Status status = answer.status;
  if (!status.ok()) return done(status);
  if (answer.id.size() != sizeof id) return done(RemoteError("a unique id of the wrong size"));
  std::memcpy(&id, answer.id.data(), sizeof id);
  done(id);
}

// ---------------------------------------------------------------------------------------------
// Communicators

void Membership::OnCommunicatorMessage(transport::PeerId peer, uint64_t key,
                                       const ClusterMessage& message) {
  if (Communicator* const communicator = communicators_.FindByKey(key)) {
    communicators_.NoteMayHaveEnded(*communicator);  // the last rank may leave
    communicator->other_hosts()->OnMessage(peer, message);
    return;
  }
  stray_.OnMessage(peer, key, message);
}

void Membership::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  message.Visit(Overloaded{
      [&](const ApplyMessage& one) { OnApply(peer, one); },
      [&](const WithdrawMessage& one) { watch_.OnWithdraw(peer, one); },
      [&](const FormedMessage& one) { OnFormed(peer, one); },
      [&](const RefusedMessage& one) { OnRefused(peer, one); },
      [&](const FormingNoticeMessage& one) { OnFormingNotice(peer, one); },
      [&](const AskGrowIdMessage& one) { OnAskGrowId(peer, one); },
      [&](const GrowIdMessage& one) { OnGrowId(peer, one); },
      [&](const AskFabricMessage& one) { fabric_exchange_.OnAskFabric(peer, one); },
      [&](const FabricMessage& one) { fabric_exchange_.OnFabric(one); },
      [&](const auto& one) {
        // What is about no communicator is not for here.
        if constexpr (requires { one.communicator; }) {
          OnCommunicatorMessage(peer, one.communicator, message);
        }
      },
  });
}

// A rank that applied is refused. A communicator may have changed by half of what the message was
// to change: it ends here, and so at all hosts. Other tenants' go on, and the peer stays.
void Membership::GiveUpOn(transport::PeerId peer, const ClusterMessage& message,
                          const Status& exception) {
  if (const auto* const apply = message.As<ApplyMessage>()) {
    return watch_.Refuse({.peer = peer, .ticket = apply->ticket}, exception);
  }
  const auto key_of = [](const auto& one) -> uint64_t {
    if constexpr (requires { one.communicator; }) return one.communicator;
    return 0;
  };
  Communicator* const communicator = communicators_.FindByKey(message.Visit(key_of));
  if (communicator != nullptr) communicator->Break(exception);
}

void Membership::OnPeerLost(transport::PeerId peer) {
  std::vector<uint64_t> refused;
  std::vector<uint64_t> anew;
  for (const auto& [number, ticket] : tickets_) {
    const bool shrinks = ticket.request.kind == FormationKind::kShrink;
    if (ticket.peer == peer) (shrinks ? anew : refused).push_back(number);
  }
  OnRefused(peer,
            {refused,
             RemoteError("the daemon at which the communicator forms does not answer any more")});
  watch_.OnPeerLost(peer);
  std::vector<std::function<void(const Result<UniqueId>&)>> unanswered;
  for (auto call = grow_id_calls_.begin(); call != grow_id_calls_.end();) {
    if (call->second.peer == peer) unanswered.push_back(std::move(call->second.done));
    call = call->second.peer == peer ? grow_id_calls_.erase(call) : std::next(call);
  }
  for (const auto& done : unanswered) {
    done(RemoteError("the daemon that looks after the communicator does not answer any more"));
  }
  for (const auto& [id, communicator] : communicators_.all()) {
    if (communicator->host_group() == nullptr) continue;
    communicator->other_hosts()->OnPeerLost(peer);
    communicators_.NoteMayHaveEnded(*communicator);
  }
  for (const uint64_t number : anew) ApplyAnew(number);
  stray_.OnPeerLost(peer);
}

}  // namespace harmonaize::daemon
