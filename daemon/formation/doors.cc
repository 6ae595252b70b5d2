#include "daemon/formation/doors.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/tenant/session_table.h"
#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

/// Memory of the daemon that a knock takes while it waits, in bytes.
constexpr int64_t kKnockBytes = 256;

Status NobodyThere() {
  return RemoteError(
      "the process that listens is gone, or has lost its daemon: its address is not known any "
      "more");
}

FormationKey KeyOf(const UniqueId& id) {
  return {FormationKey::Kind::kSecretId, id};
}

std::vector<uint8_t> BytesOf(const UniqueId& id) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&id);
  return {bytes, bytes + sizeof id};
}

UniqueId IdOf(const std::vector<uint8_t>& bytes) {
  UniqueId id;
  std::memcpy(&id, bytes.data(), sizeof id);
  return id;
}

}  // namespace

Result<UniqueId> Doors::Open(Session& session) {
  const auto found = of_session_.find(session.id());
  if (found != of_session_.end()) return found->second;
  UniqueId door{.kind = UniqueId::Kind::kDoor};
  HZ_RETURN_IF_ERROR(FillRandom(std::as_writable_bytes(std::span(door.token))));
  HZ_ASSIGN_OR_RETURN(Holding place, session.tenant().account->Take(Resource::kUniqueIds, 1));
  if (services_.cluster != nullptr) HZ_RETURN_IF_ERROR(services_.cluster->Seal(&door));
  doors_[door.token] = {&session, std::move(place), {}};
  of_session_[session.id()] = door;
  return door;
}

Result<uint32_t> Doors::Knock(Session& session, const UniqueId& door, const std::string& name) {
  HZ_RETURN_IF_ERROR(CheckDoor(door));
  std::optional<transport::NetworkAddress> address;
  if (services_.cluster != nullptr) {
    HZ_ASSIGN_OR_RETURN(address, services_.cluster->HomeOf(door));
  }
  HZ_ASSIGN_OR_RETURN(const UniqueId id, services_.ids.Issue(&session.tenant(), session.id(), 0));
  const Result<uint32_t> member = services_.client.Apply(
      session, {.kind = FormationKind::kJoin, .id = id, .ranks = 2, .rank = 0, .name = name});
  if (!member.ok()) {
    services_.ids.Erase(id);
    return member;
  }
  const Status knocked =
      address.has_value()
          ? SendKnock(session, door, id, address->ToString())
          : Admit(door.token, session.tenant().identity.across_hosts, &session.tenant(), id);
  if (!knocked.ok()) Fail(id, knocked);
  return member;
}

Status Doors::SendKnock(Session& session, const UniqueId& door, const UniqueId& id,
                        const std::string& address) {
  PendingFormation* const pending = services_.pending.Find(KeyOf(id));
  if (pending == nullptr) return InternalError("a knock whose ranks do not gather");
  knocks_[id] = kThisDaemon;
  pending->ended = [this, id](const Status&) { knocks_.erase(id); };
  const KnockMessage knock{
      {door.token.begin(), door.token.end()}, session.tenant().identity.across_hosts, BytesOf(id)};
  const TenantIdentity tenant = session.tenant().identity;
  services_.cluster->Reach(address, [this, id, knock,
                                     tenant](const Result<transport::PeerId>& peer) {
    const auto found = knocks_.find(id);
    if (found == knocks_.end()) return;  // has given up meanwhile
    if (!peer.ok()) {
      return Fail(id, RemoteError("the daemon of the process that listens cannot be reached; is "
                                  "its host up, and the daemon there?"));
    }
    found->second = *peer;
    const Status sent = services_.cluster->SendFor(tenant, *peer, knock);
    if (!sent.ok()) Fail(id, sent);
  });
  return Status::Ok();
}

// Puts a knock to the others that wait at a door. `tenant` is the knocker's; nullptr for one of
// another host.
Status Doors::Admit(const Token& token, uint32_t user, const Tenant* tenant, const UniqueId& id) {
  const auto found = doors_.find(token);
  if (found == doors_.end()) return NobodyThere();
  Door& door = found->second;
  Tenant& owner = door.session->tenant();
  const bool is_other = tenant != nullptr && tenant != &owner;
  if (owner.identity.across_hosts != user || is_other) {
    return InvalidUsage("the process that listens belongs to another user");
  }
  if (door.knocks.size() >= kMostWaiting) {
    return RemoteError("{} connections wait to be accepted by the process that listens",
                       kMostWaiting);
  }
  HZ_ASSIGN_OR_RETURN(Holding memory, owner.account->Take(Resource::kMemory, kKnockBytes));
  door.knocks.push_back({id, std::move(memory)});
  door.session->TellKnock();
  return Status::Ok();
}

Result<uint32_t> Doors::Take(Session& session) {
  const auto of_session = of_session_.find(session.id());
  if (of_session == of_session_.end()) return kNoMember;
  Door& door = doors_.at(of_session->second.token);
  if (door.knocks.empty()) return kNoMember;
  const UniqueId id = door.knocks.front().id;
  door.knocks.pop_front();
  return services_.client.Apply(session,
                                {.kind = FormationKind::kJoin, .id = id, .ranks = 2, .rank = 1});
}

void Doors::LoseSession(const Session& session) {
  const auto found = of_session_.find(session.id());
  if (found == of_session_.end()) return;
  // Those that have knocked wait for a rank that will not come.
  const auto door = doors_.extract(found->second.token);
  of_session_.erase(found);
  for (const Waiting& knock : door.mapped().knocks) {
    const auto home = services_.cluster == nullptr
                          ? Result<std::optional<transport::NetworkAddress>>(std::nullopt)
                          : services_.cluster->HomeOf(knock.id);
    if (!home.ok()) continue;
    if (!home->has_value()) {
      Fail(knock.id, NobodyThere());
      continue;
    }
    services_.cluster->Reach(
        (*home)->ToString(), [this, id = knock.id](const Result<transport::PeerId>& peer) {
          if (!peer.ok()) return;
          services_.cluster->Send(*peer, KnockRefusedMessage{BytesOf(id), NobodyThere()});
        });
  }
}

// ---------------------------------------------------------------------------------------------
// The cluster

void Doors::OnKnock(transport::PeerId peer, const KnockMessage& knock) {
  Token token{};
  std::copy(knock.door.begin(), knock.door.end(), token.begin());
  const Status admitted = Admit(token, knock.user, nullptr, IdOf(knock.id));
  if (!admitted.ok()) services_.cluster->Send(peer, KnockRefusedMessage{knock.id, admitted});
}

void Doors::OnRefused(transport::PeerId peer, const KnockRefusedMessage& refused) {
  const UniqueId id = IdOf(refused.id);
  const auto found = knocks_.find(id);
  if (found != knocks_.end() && found->second == peer) Fail(id, refused.status);
}

void Doors::OnPeerLost(transport::PeerId peer) {
  std::vector<UniqueId> lost;
  for (const auto& [id, at] : knocks_) {
    if (at == peer) lost.push_back(id);
  }
  for (const UniqueId& id : lost) Fail(id, NobodyThere());
}

void Doors::Fail(const UniqueId& id, const Status& why) {
  knocks_.erase(id);
  services_.watch.Fail(KeyOf(id), why);
  services_.ids.Erase(id);
}

}  // namespace harmonaize::daemon
