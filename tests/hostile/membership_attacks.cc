// Communicators: other tenants' numbers, ranks that disagree, and more ranks than a host may have.

#include <array>
#include <cstring>
#include <string>

#include "tests/hostile/attacks.h"

namespace harmonaize::testing {
namespace {

/// The most ranks of one communicator on a host (kMaxRanksOnHost of the daemon, docs/security.md).
constexpr int kMostRanksOnHost = 512;

constexpr uint64_t kSmallBytes = uint64_t{1} << 16;

template <typename Request>
void AskFor(Attacker& attacker, HostileSession& session, uint32_t member) {
  Request request;
  request.member = member;
  attacker.Ask(session, request);
}

void AskForAnything(Attacker& attacker, HostileSession& session) {
  const uint32_t number = attacker.DrawNumber();
  switch (attacker.DrawBelow(12)) {
    case 0: return AskFor<LeaveRequest>(attacker, session, number);
    case 1: return AskFor<AbortRequest>(attacker, session, number);
    case 2: return AskFor<RevokeRequest>(attacker, session, number);
    case 3: return AskFor<SplitRequest>(attacker, session, number);
    case 4: return AskFor<ShrinkRequest>(attacker, session, number);
    case 5: return AskFor<CreateGrowIdRequest>(attacker, session, number);
    case 6: return AskFor<AttachInlineRequest>(attacker, session, number);
    case 7: return AskFor<LostRanksRequest>(attacker, session, number);
    case 8: {
      EstimateRequest request;
      request.member = number;
      request.count = attacker.Draw();
      request.root = static_cast<int32_t>(attacker.DrawNumber());
      request.collective = static_cast<Collective>(attacker.DrawBelow(16));
      request.type = static_cast<DataType>(attacker.DrawBelow(16));
      attacker.Ask(session, request);
      return;
    }
    case 9: {
      UnregisterRegionRequest request;
      request.region = number;
      attacker.Ask(session, request);
      return;
    }
    case 10: {
      CloseStreamRequest request;
      request.stream = number;
      attacker.Ask(session, request);
      return;
    }
    default: {
      GrowRequest request;
      request.member = number;
      request.ranks = static_cast<int32_t>(attacker.DrawNumber());
      request.rank = static_cast<int32_t>(attacker.DrawNumber());
      attacker.Ask(session, request);
      return;
    }
  }
}

/// Any of the ways to make communicators of one, by a rank of it.
void Derive(Attacker& attacker, HostileSession& session, uint32_t member) {
  std::array<int32_t, 3> excluded{};
  for (int32_t& rank : excluded) rank = static_cast<int32_t>(attacker.DrawBelow(5)) - 1;
  const auto tail = std::as_bytes(std::span(excluded).first(attacker.DrawBelow(4)));
  switch (attacker.DrawBelow(4)) {
    case 0: {
      SplitRequest request;
      request.member = member;
      request.has_color = attacker.OneIn(4) ? 0 : 1;
      request.color = static_cast<int32_t>(attacker.DrawBelow(2));
      request.key = static_cast<int32_t>(attacker.Draw());
      attacker.Ask(session, request);
      return;
    }
    case 1: {
      ShrinkRequest request;
      request.member = member;
      request.abort_parent = attacker.OneIn(4) ? 1 : 0;
      attacker.Ask(session, request, {}, tail);
      return;
    }
    case 2: {
      GrowRequest request;
      request.member = member;
      request.ranks = static_cast<int32_t>(attacker.DrawBelow(8));
      attacker.Ask(session, request);
      return;
    }
    default: {
      CreateGrowIdRequest ask_id;
      ask_id.member = member;
      if (!attacker.Ask(session, ask_id)) return;
      GrowRequest request;
      request.id = session.LastReply<CreateIdReply>().id;
      request.ranks = static_cast<int32_t>(attacker.DrawBelow(8));
      request.rank = static_cast<int32_t>(attacker.DrawBelow(8));
      attacker.Ask(session, request);
      return;
    }
  }
}

/// Makes communicators of this one without any agreement.
void DeriveFrom(Attacker& attacker, Gang& gang) {
  for (int i = 0; i < 30 && attacker.TimeLeft() && !gang.WasCutOff(attacker); ++i) {
    if (attacker.OneIn(3)) gang.PostAll(Collective::kAllReduce, 4000);
    const auto rank = static_cast<int>(attacker.DrawBelow(static_cast<uint64_t>(gang.ranks())));
    // Members that came of others are used as well: numbers are given in order.
    const uint32_t member = attacker.OneIn(3) ? attacker.DrawNumber() : gang.member(rank);
    Derive(attacker, gang.session_of(rank), member);
  }
}

void SplitTogether(Attacker& attacker, Gang& gang) {
  for (int rank = 0; rank < gang.ranks(); ++rank) {
    SplitRequest request;
    request.member = gang.member(rank);
    request.key = rank;
    attacker.Ask(gang.session_of(rank), request);
  }
}

bool Mentions(const Status& status, std::string_view text) {
  return status.message().find(text) != std::string::npos;
}

/// Whether it was refused for what the attackers hold already, or the time.
bool WasShortOfRoom(const Status& status) {
  return Mentions(status, "quota") || Mentions(status, "left for all others");
}

/// Whether a rank that may form is let in. Where another host's daemon made the id, the refusal
/// comes from there.
bool IsLetIn(Attacker& attacker, HostileSession& session, uint32_t member) {
  if (attacker.hosts() == 1) return true;
  const std::atomic<uint32_t>& state = session.segment().members[member].state;
  while (state.load() == static_cast<uint32_t>(MemberState::kForming)) {
    if (!attacker.TimeLeft() || session.socket().PeerGone()) return false;
    usleep(100);
  }
  return state.load() == static_cast<uint32_t>(MemberState::kReady);
}

}  // namespace

void NameNumbersOfOthers(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang =
        Gang::Form(attacker, 1 + static_cast<int>(attacker.DrawBelow(2)), kSmallBytes);
    if (!gang.has_value()) continue;
    for (int i = 0; i < 50 && attacker.TimeLeft() && !attacker.WasCutOff(gang->session()); ++i) {
      AskForAnything(attacker, gang->session());
    }
  }
}

void UseIdsOfOthers(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<HostileSession> session = attacker.Greet();
    if (!session.has_value()) continue;
    std::vector<UniqueId> ids = attacker.HonestIds();
    // A name means another thing to each tenant, so it is no success to join by it.
    static_cast<void>(session->TryJoin(MakeNamedId("honest-visitor:1"), 2,
                                       static_cast<int>(attacker.DrawBelow(2))));
    for (const UniqueId& id : ids) {
      const int ranks = 1 + static_cast<int>(attacker.DrawBelow(4));
      const int rank = static_cast<int>(attacker.DrawBelow(static_cast<uint64_t>(ranks)));
      const Result<uint32_t> joined = session->TryJoin(id, ranks, rank);
      if (attacker.Count(joined.status()) && IsLetIn(attacker, *session, *joined)) {
        attacker.Report("a rank joined by the unique id of another tenant");
      }
      GrowRequest grow;
      grow.id = id;
      grow.ranks = ranks;
      grow.rank = rank;
      if (attacker.Ask(*session, grow) &&
          IsLetIn(attacker, *session, session->LastReply<MemberReply>().member)) {
        attacker.Report("a rank grew by another tenant's id");
      }
      UniqueId changed = id;
      changed.token[attacker.DrawBelow(changed.token.size())] ^= 1;
      attacker.Count(session->TryJoin(changed, ranks, rank).status());
    }
  }
}

void MapForeignRegions(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> owner = Gang::Form(attacker, 1, kSmallBytes);
    std::optional<HostileSession> empty = attacker.Greet();
    if (!owner.has_value() || !empty.has_value()) continue;
    std::optional<Gang> asker =
        Gang::FormIn(attacker, std::move(*empty), 1, kNoBuffer, kSmallBytes);
    if (!asker.has_value()) continue;
    for (int i = 0; i < 50 && attacker.TimeLeft(); ++i) {
      MapPeerRegionRequest request;
      request.member = attacker.OneIn(2) ? asker->member(0) : attacker.DrawNumber();
      request.rank = static_cast<int32_t>(attacker.DrawBelow(4)) - 1;
      request.region = attacker.OneIn(2) ? owner->region() : attacker.DrawNumber();
      if (attacker.Ask(asker->session(), request)) {
        attacker.Report("a process mapped a region of one with which it shares no communicator");
      }
    }
  }
}

void DisagreeAboutRanks(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<HostileSession> first = attacker.Greet();
    std::optional<HostileSession> second = attacker.Greet();
    if (!first.has_value() || !second.has_value()) continue;
    const std::array<HostileSession*, 2> sessions = {&*first, &*second};
    for (int round = 0; round < 5 && attacker.TimeLeft(); ++round) {
      const UniqueId id = DrawId(attacker);
      for (int i = 0; i < 4; ++i) {
        const int ranks = 2 + static_cast<int>(attacker.DrawBelow(3));
        const int rank = static_cast<int>(attacker.DrawBelow(5)) - 1;
        attacker.Count(attacker.DrawOf(sessions)->TryJoin(id, ranks, rank).status());
      }
    }
  }
}

void SplitShrinkAndGrow(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    const int ranks = 1 + static_cast<int>(attacker.DrawBelow(4));
    std::optional<Gang> gang = Gang::Form(attacker, ranks, kSmallBytes);
    if (gang.has_value()) DeriveFrom(attacker, *gang);
  }
}

void SplitShrinkAndGrowOverHosts(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    const int ranks = 2 + static_cast<int>(attacker.DrawBelow(3));
    std::optional<Gang> gang = Gang::FormOverHosts(attacker, ranks, kSmallBytes);
    if (!gang.has_value()) continue;
    // Now and then all agree, so that there are children to go on with.
    if (attacker.OneIn(2)) SplitTogether(attacker, *gang);
    DeriveFrom(attacker, *gang);
  }
}

void AbortInMidOperation(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = Gang::Form(attacker, 3, uint64_t{8} << 20);
    if (!gang.has_value()) continue;
    gang->PostAll(Collective::kAllReduce, UINT64_MAX);
    // One that a rank is missing for.
    gang->session().Post(gang->Next(0, Collective::kAllReduce, 100, DataType::kInt32));
    for (int i = 0; i < 6; ++i) {
      const uint32_t member = gang->member(static_cast<int>(attacker.DrawBelow(3)));
      switch (attacker.DrawBelow(4)) {
        case 0: AskFor<AbortRequest>(attacker, gang->session(), member); break;
        case 1: AskFor<RevokeRequest>(attacker, gang->session(), member); break;
        case 2: AskFor<LeaveRequest>(attacker, gang->session(), member); break;
        default: AskFor<ShrinkRequest>(attacker, gang->session(), member); break;
      }
      gang->PostAll(Collective::kAllGather, 1000);
    }
  }
}

void FormAsManyRanksAsMayBe(Attacker& attacker) {
  constexpr std::array<Collective, 4> kCollectives = {Collective::kAllReduce, Collective::kAllToAll,
                                                      Collective::kReduceScatter,
                                                      Collective::kAllGather};
  std::optional<Gang> gang = Gang::Form(attacker, kMostRanksOnHost, uint64_t{4} << 20);
  if (!gang.has_value()) return;
  while (attacker.TimeLeft() && !attacker.WasCutOff(gang->session())) {
    gang->PostAll(attacker.DrawOf(kCollectives), 1 + attacker.DrawBelow(100));
    attacker.CountBlows(kMostRanksOnHost);
    gang->AwaitAll(attacker, 0);
  }
}

void FormOneRankTooMany(Attacker& attacker) {
  constexpr int kRanks = kMostRanksOnHost + 1;
  std::optional<HostileSession> session = attacker.Greet();
  if (!session.has_value()) return;
  const UniqueId id = DrawId(attacker);
  const Status refused = session->TryJoin(id, kRanks, 0).status();
  attacker.Count(refused);
  // In a cluster the others may be on other hosts.
  const bool may_be = attacker.hosts() > 1 && refused.ok();
  if (!may_be && !WasShortOfRoom(refused) && !Mentions(refused, "513 ranks of one communicator")) {
    attacker.Report("513 ranks of one host are not refused by name: " + refused.ToString());
  }
  // As a growth of a communicator of 511: all ask, and none may get it.
  std::optional<Gang> gang = Gang::Form(attacker, kMostRanksOnHost - 1, kSmallBytes);
  if (!gang.has_value()) return;
  CreateGrowIdRequest ask_id;
  ask_id.member = gang->member(0);
  if (!attacker.Ask(gang->session(), ask_id)) return;
  GrowRequest newcomer;
  newcomer.id = gang->session().LastReply<CreateIdReply>().id;
  newcomer.ranks = kRanks;
  std::vector<uint32_t> grown;
  for (int rank = 0; rank < kRanks && attacker.TimeLeft(); ++rank) {
    GrowRequest request = newcomer;
    if (rank < kMostRanksOnHost - 1) {
      request = {};
      request.member = gang->member(rank);
      request.ranks = kRanks;
    } else {
      request.rank = rank;
    }
    if (!attacker.Ask(gang->session(), request)) continue;
    grown.push_back(gang->session().LastReply<MemberReply>().member);
  }
  for (const uint32_t member : grown) {
    const MemberSlot& slot = gang->session().segment().members[member];
    while (slot.state.load() == static_cast<uint32_t>(MemberState::kForming) &&
           attacker.TimeLeft()) {
      usleep(1000);
    }
    if (slot.state.load() == static_cast<uint32_t>(MemberState::kReady)) {
      return attacker.Report("a communicator grew to 513 ranks on one host");
    }
  }
}

}  // namespace harmonaize::testing
