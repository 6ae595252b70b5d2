#include "daemon/formation/doors.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

/// Memory of the daemon that a knock takes while it waits, in bytes.
constexpr int64_t kKnockBytes = 256;

/// Most knocks at doors that are gone that are refused at once, before the engine looks at other
/// tenants' work. A refusal takes some microseconds.
constexpr size_t kDismissedAtOnce = 64;

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

Result<std::optional<transport::NetworkAddress>> Doors::HomeOf(const UniqueId& id) const {
  if (services_.cluster == nullptr) return std::optional<transport::NetworkAddress>();
  return services_.cluster->HomeOf(id);
}

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
  HZ_ASSIGN_OR_RETURN(const std::optional<transport::NetworkAddress> address, HomeOf(door));
  HZ_ASSIGN_OR_RETURN(const UniqueId id, services_.ids.Issue(&session.tenant(), session.id(), 0));
  const Result<uint32_t> member = services_.client.Apply(
      session, {.kind = FormationKind::kJoin, .id = id, .ranks = 2, .rank = 0, .name = name});
  PendingFormation* const pending = services_.pending.Find(KeyOf(id));
  if (!member.ok() || pending == nullptr) {
    services_.ids.Erase(id);
    return member.ok() ? InternalError("a knock whose ranks do not gather") : member;
  }
  const Status knocked = Caught([&]() -> Status {
    // Nobody else has the id, so it is of no use once the knock has failed.
    pending->ended = [this, id](const Status& outcome) {
      knocks_.erase(id);
      if (!outcome.ok()) services_.ids.Erase(id);
    };
    if (address.has_value()) return SendKnock(session, door, id, address->ToString());
    return Admit(door.token, session.tenant().identity.across_hosts, &session.tenant(), id);
  });
  if (!knocked.ok()) Fail(id, knocked);
  return member;
}

Status Doors::SendKnock(Session& session, const UniqueId& door, const UniqueId& id,
                        const std::string& address) {
  knocks_[id] = kThisDaemon;
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
  std::deque<Waiting>& knocks = doors_.at(of_session->second.token).knocks;
  while (!knocks.empty()) {
    const UniqueId id = knocks.front().id;
    knocks.pop_front();
    if (IsGone(id)) continue;
    const Result<uint32_t> member = services_.client.Apply(
        session, {.kind = FormationKind::kJoin, .id = id, .ranks = 2, .rank = 1});
    if (!member.ok()) {
      Refuse(session.tenant().identity, id,
             RemoteError("the process that listens could not take the connection: {}",
                         member.status().message()));
    }
    return member;
  }
  return kNoMember;
}

// Returns whether the process that has knocked does not wait any more, as far as this daemon knows.
bool Doors::IsGone(const UniqueId& id) const {
  const auto home = HomeOf(id);
  return home.ok() && !home->has_value() && services_.ids.Find(id) == nullptr;
}

void Doors::LoseSession(Session& session) {
  const auto found = of_session_.find(session.id());
  if (found == of_session_.end()) return;
  // Those that have knocked wait for a rank that will not come.
  auto door = doors_.extract(found->second.token);
  of_session_.erase(found);
  dismissed_.push_back({session.tenant().identity, std::move(door.mapped().knocks)});
  if (!dismisses_) DismissSome();
}

// Tells some of the processes that have knocked at doors that are gone.
void Doors::DismissSome() {
  dismisses_ = false;
  for (size_t i = 0; i < kDismissedAtOnce && !dismissed_.empty(); ++i) {
    const TenantIdentity owner = dismissed_.front().owner;
    std::deque<Waiting>& knocks = dismissed_.front().knocks;
    if (knocks.empty()) {
      dismissed_.pop_front();
      continue;
    }
    const UniqueId id = knocks.front().id;
    knocks.pop_front();
    const LogFor log_for(owner);
    GuardedAndLogged("the end of a door", [&] { Refuse(owner, id, NobodyThere()); });
  }
  if (dismissed_.empty()) return;
  services_.loop.Post(lifetime_.Guard([this] { DismissSome(); }));
  dismisses_ = true;
}

// Refuses a process that has knocked. The refusal counts as a message of the tenant `owner`, who
// has the door or had it. A process that cannot be told waits until its formation has waited too
// long.
void Doors::Refuse(const TenantIdentity& owner, const UniqueId& id, const Status& why) {
  const auto home = HomeOf(id);
  if (!home.ok()) return;
  if (!home->has_value()) return Fail(id, why);
  services_.cluster->Reach(
      (*home)->ToString(), [this, owner, id, why](const Result<transport::PeerId>& peer) {
        if (!peer.ok()) return;
        static_cast<void>(
            services_.cluster->SendFor(owner, *peer, KnockRefusedMessage{BytesOf(id), why}));
      });
}

// ---------------------------------------------------------------------------------------------
// The cluster

// A daemon may knock for communicators that form at other hosts alone: the ids of those that form
// here are this daemon's own tenants'.
void Doors::OnKnock(transport::PeerId peer, const KnockMessage& knock) {
  const UniqueId id = IdOf(knock.id);
  const auto home = HomeOf(id);
  if (id.kind != UniqueId::Kind::kSecret || !home.ok() || !home->has_value()) return;
  Token token{};
  std::copy(knock.door.begin(), knock.door.end(), token.begin());
  const Status admitted = Admit(token, knock.user, nullptr, id);
  if (admitted.ok()) return;
  services_.cluster->Answer(peer, knock.user, KnockRefusedMessage{knock.id, admitted});
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
  services_.watch.Fail(KeyOf(id), why);
}

}  // namespace harmonaize::daemon
