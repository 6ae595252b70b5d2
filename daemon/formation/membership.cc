#include "daemon/formation/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "daemon/cluster/cluster.h"
#include "daemon/formation/membership_requests.h"
#include "daemon/multihost/host_group.h"

namespace harmonaize::daemon {
namespace {

/// What a rank takes of the daemon's memory, in bytes: its slot in the session's segment, its
/// queue, its place in what forms.
constexpr int64_t kRankBytes = 4096;

std::vector<uint8_t> BytesOf(const UniqueId& id) {
  std::vector<uint8_t> bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  return bytes;
}

Status HomeIsLost() {
  return RemoteError("the daemon that looked after the communicator does not answer any more");
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// Ids

Membership::Membership(const MembershipServices& services)
    : config_(*services.communicator.config),
      cluster_(services.hosts.plans.cluster),
      communicators_(*services.communicators),
      issued_(cluster_),
      watch_(config_, pending_, issued_, *services.sessions, cluster_),
      services_([&] {
        MembershipServices with_ranks = services;
        with_ranks.hosts.ranks = &watch_;
        return with_ranks;
      }()),
      maker_(services_.communicator, services_.hosts, communicators_, *services.sessions),
      stray_(cluster_),
      fabric_exchange_(*services.hosts.plans.fabrics, communicators_, cluster_),
      completer_(maker_, *services.hosts.plans.fabrics, cluster_),
      disagreements_(static_cast<uint64_t>(config_.formation_timeout_seconds * 1e9)),
      departures_(communicators_),
      late_rounds_(communicators_) {}

Result<UniqueId> Membership::CreateId(Session& session) {
  return issued_.Issue(&session.tenant(), session.id(), 0);
}

void Membership::CreateGrowId(Session& session, uint32_t index,
                              std::function<void(const Result<UniqueId>&)> done) {
  Result<Communicator*> parent = Find(session, index);
  if (!parent.ok()) return done(parent.status());
  const HostGroup* const group = (*parent)->host_group();
  if (group == nullptr || group->is_home()) {
    return done(issued_.Issue(&session.tenant(), session.id(), (*parent)->id()));
  }
  if (!cluster_->Linked(group->roster().home)) return done(HomeIsLost());
  const uint64_t ticket = next_ticket_++;
  grow_id_calls_[ticket] = {group->roster().home, std::move(done)};
  cluster_->Send(group->roster().home, AskGrowIdMessage{ticket, group->roster().key,
                                                        session.tenant().identity.across_hosts});
}

// ---------------------------------------------------------------------------------------------
// Applying

Result<uint32_t> Membership::Join(Session& session, const UniqueId& id, int ranks, int rank,
                                  const std::string& name) {
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  HZ_RETURN_IF_ERROR(CheckRanks(ranks, rank, 0));
  return ApplyFor(
      session,
      {.kind = FormationKind::kJoin, .id = BytesOf(id), .ranks = ranks, .rank = rank, .name = name},
      nullptr);
}

Result<uint32_t> Membership::Split(Session& session, uint32_t index, std::optional<int> color,
                                   int key, const std::string& name) {
  HZ_ASSIGN_OR_RETURN(Communicator * parent, Find(session, index));
  if (parent->state() == Communicator::State::kBroken) return parent->failure();
  Member* caller = session.FindMember(index);
  return ApplyFor(session,
                  {.kind = FormationKind::kSplit,
                   .round = caller->next_split++,
                   .rank = caller->rank,
                   .takes_part = color.has_value(),
                   .color = color.value_or(0),
                   .key = key,
                   .name = name},
                  parent);
}

Result<uint32_t> Membership::Shrink(Session& session, uint32_t index, std::vector<int32_t> excluded,
                                    bool abort_parent, const std::string& name) {
  HZ_ASSIGN_OR_RETURN(Communicator * found, Find(session, index));
  Communicator& parent = *found;
  const int caller = session.FindMember(index)->rank;
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  for (const int32_t rank : excluded) {
    if (rank < 0 || rank >= parent.ranks() || rank == caller) {
      return InvalidArgument("ncclCommShrink cannot exclude rank {} of {} when rank {} calls it",
                             rank, parent.ranks(), caller);
    }
  }
  if (abort_parent) {
    parent.Break(RemoteError("rank {} shrinks the communicator with NCCL_SHRINK_ABORT", caller));
  }
  return ApplyFor(session,
                  {.kind = FormationKind::kShrink,
                   .rank = caller,
                   .excluded = std::move(excluded),
                   .name = name},
                  &parent);
}

Result<uint32_t> Membership::GrowFrom(Session& session, uint32_t index, int ranks,
                                      const std::string& name) {
  HZ_ASSIGN_OR_RETURN(Communicator * parent, Find(session, index));
  return ApplyFor(session,
                  {.kind = FormationKind::kGrow,
                   .ranks = ranks,
                   .rank = session.FindMember(index)->rank,
                   .name = name},
                  parent);
}

Result<uint32_t> Membership::JoinGrowth(Session& session, const UniqueId& id, int ranks, int rank,
                                        const std::string& name) {
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  return ApplyFor(session,
                  {.kind = FormationKind::kJoinGrowth,
                   .id = BytesOf(id),
                   .ranks = ranks,
                   .rank = rank,
                   .name = name},
                  nullptr);
}

Result<Member*> Membership::NewMember(Session& session) {
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

Result<Membership::FormationHome> Membership::HomeFor(const ApplyMessage& request,
                                                      const Communicator* parent) const {
  if (cluster_ == nullptr) return FormationHome{};
  if (parent != nullptr) return HomeOfParent(request, *parent);
  HZ_ASSIGN_OR_RETURN(const UniqueId id, IdOf(request));
  HZ_ASSIGN_OR_RETURN(const std::optional<transport::NetworkAddress> home, cluster_->HomeOf(id));
  if (!home.has_value()) return FormationHome{};
  return FormationHome{.here = false, .address = home->ToString()};
}

// The home of the parent. Where that is lost, the ranks that remain can shrink at the daemon of the
// first of them: all that name the same ranks to leave out come to the same.
Result<Membership::FormationHome> Membership::HomeOfParent(const ApplyMessage& request,
                                                           const Communicator& parent) const {
  if (parent.host_group() == nullptr || parent.host_group()->is_home()) return FormationHome{};
  const Roster& roster = parent.host_group()->roster();
  if (cluster_->Linked(roster.home)) return FormationHome{.here = false, .peer = roster.home};
  if (request.kind != FormationKind::kShrink) return HomeIsLost();
  int first = 0;
  while (std::binary_search(request.excluded.begin(), request.excluded.end(), first)) ++first;
  const auto host = static_cast<size_t>(roster.host_of_rank[static_cast<size_t>(first)]);
  if (static_cast<int>(host) == roster.self) return FormationHome{};
  const transport::PeerId peer = roster.peers[host];
  FormationHome home{.here = false, .address = roster.addresses[host]};
  if (peer != kThisDaemon && cluster_->Linked(peer)) home.peer = peer;
  return home;
}

Result<uint32_t> Membership::ApplyFor(Session& session, ApplyMessage request,
                                      Communicator* parent) {
  request.user = session.tenant().identity.across_hosts;
  Member* member = nullptr;
  if (request.takes_part) {
    HZ_ASSIGN_OR_RETURN(member, NewMember(session));
  }
  const uint32_t index = member == nullptr ? kNoMember : member->index;
  const Status status = ApplyAtHome(std::move(request), member, parent);
  if (status.ok()) return index;
  if (member != nullptr) session.RemoveMember(member);
  return status;
}

Status Membership::ApplyAtHome(ApplyMessage request, Member* member, Communicator* parent) {
  HZ_ASSIGN_OR_RETURN(const FormationHome home, HomeFor(request, parent));
  if (home.here) return Apply(request, {.member = member}, parent);
  if (parent != nullptr) request.communicator = parent->host_group()->roster().key;
  ApplyElsewhere(std::move(request), member, home);
  return Status::Ok();
}

void Membership::ApplyElsewhere(ApplyMessage request, Member* member, const FormationHome& home) {
  Cluster& cluster = *cluster_;
  request.address = cluster.address();
  request.host = cluster.host_name();
  if (member != nullptr) {
    request.ticket = next_ticket_++;
    tickets_.emplace(request.ticket, Ticket{member, home.peer, request});
    member->ticket = request.ticket;
  }
  if (home.peer.has_value()) return cluster.Send(*home.peer, request);
  cluster.Reach(home.address, [this,
                               number = request.ticket](const Result<transport::PeerId>& peer) {
    const auto found = tickets_.find(number);
    if (found == tickets_.end()) return;  // has given up meanwhile
    if (!peer.ok()) {
      const bool shrinks = found->second.request.kind == FormationKind::kShrink;
      return OnRefused(
          std::nullopt,
          {{number},
           RemoteError("{}: the daemon {} cannot be reached; is its host up, and the "
                       "daemon there?",
                       WhatOf(found->second.request.kind),
                       shrinks ? "of the first rank that remains" : "that made the unique id")});
    }
    found->second.peer = *peer;
    cluster_->Send(*peer, found->second.request);
  });
}

// The daemon at which the rank had applied is lost.
void Membership::ApplyAnew(uint64_t number) {
  const Ticket ticket = tickets_.extract(number).mapped();
  ticket.member->ticket = 0;
  Communicator* const parent = communicators_.FindByKey(ticket.request.communicator);
  const Status status = parent == nullptr ? RemoteError("the communicator is gone")
                                          : ApplyAtHome(ticket.request, ticket.member, parent);
  if (!status.ok()) ticket.member->Fail(status);
}

// ---------------------------------------------------------------------------------------------
// Finding

Result<Communicator*> Membership::Find(Session& session, uint32_t index) {
  Member* member = session.FindMember(index);
  if (member == nullptr || member->gone) {
    return InvalidArgument("member {} is not a rank of this process", index);
  }
  if (member->communicator == nullptr) return InvalidUsage("the communicator is not ready");
  return member->communicator;
}

}  // namespace harmonaize::daemon
