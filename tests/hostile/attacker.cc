#include "tests/hostile/attacker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"

namespace harmonaize::testing {
namespace {

/// Who is turned away tries again after this, in microseconds.
constexpr useconds_t kPauseWhenTurnedAway = 10'000;

/// How often a word in shared memory is looked at, in microseconds.
constexpr useconds_t kLookEvery = 200;

bool AwaitState(Attacker& attacker, HostileSession& session, uint32_t member, MemberState wanted) {
  const std::atomic<uint32_t>& state = session.segment().members[member].state;
  while (state.load() != static_cast<uint32_t>(wanted)) {
    if (!attacker.TimeLeft() || session.socket().PeerGone()) return false;
    usleep(kLookEvery);
  }
  return true;
}

}  // namespace

std::vector<std::byte> Attacker::DrawBytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(Draw());
  return bytes;
}

uint32_t Attacker::DrawNumber() {
  constexpr std::array<uint32_t, 8> kBesideLimits = {kMaxMembers - 1, kMaxMembers, kStreamSlots - 1,
                                                     kStreamSlots,    0x7fffffff,  0x80000000,
                                                     kNoMember - 1,   kNoMember};
  if (OneIn(2)) return static_cast<uint32_t>(DrawBelow(6));
  return OneIn(2) ? DrawOf(kBesideLimits) : static_cast<uint32_t>(Draw());
}

std::optional<ControlSocket> Attacker::Connect() {
  Result<ControlSocket> socket = ControlSocket::Connect(socket_path());
  if (socket.ok()) return std::move(*socket);
  tally_.turned_away.fetch_add(1);
  usleep(kPauseWhenTurnedAway);
  return std::nullopt;
}

std::optional<HostileSession> Attacker::GreetAt(int host, const HelloRequest& hello) {
  Result<HostileSession> session = HostileSession::TryOpen(socket_path(host), hello);
  if (session.ok()) return std::move(*session);
  tally_.turned_away.fetch_add(1);
  usleep(kPauseWhenTurnedAway);
  return std::nullopt;
}

bool Attacker::Count(const Status& outcome) {
  CountBlows();
  if (!outcome.ok()) tally_.refusals.fetch_add(1);
  return outcome.ok();
}

bool Attacker::WasCutOff(HostileSession& session) {
  if (!session.socket().PeerGone()) return false;
  tally_.cut_off.fetch_add(1);
  return true;
}

void Attacker::InspectDocument(const std::string& document) {
  const nlohmann::json report = ReadJson(document);
  if (report.is_discarded()) return Report("a document of the daemon's is no JSON: " + document);
  if (!report.contains("tenants")) return;
  for (const nlohmann::json& tenant : report["tenants"]) {
    if (tenant.value("uid", uid_t{0}) != getuid()) {
      Report("the status tells a tenant of another: " + JsonText(tenant));
    }
  }
}

std::optional<Gang> Gang::Form(Attacker& attacker, int ranks, uint64_t region_bytes) {
  Gang gang(region_bytes);
  if (!gang.Open(attacker, attacker.home())) return std::nullopt;
  if (!gang.JoinAll(attacker, DrawId(attacker), ranks)) return std::nullopt;
  return gang;
}

std::optional<Gang> Gang::FormIn(Attacker& attacker, HostileSession session, int ranks,
                                 uint32_t region, uint64_t region_bytes) {
  Gang gang(region_bytes);
  gang.sessions_.push_back(std::move(session));
  gang.regions_.push_back(region);
  if (!gang.JoinAll(attacker, DrawId(attacker), ranks)) return std::nullopt;
  return gang;
}

std::optional<Gang> Gang::FormOverHosts(Attacker& attacker, int ranks, uint64_t region_bytes) {
  Gang gang(region_bytes);
  for (int host = 0; host < attacker.hosts(); ++host) {
    if (!gang.Open(attacker, host)) return std::nullopt;
  }
  const std::optional<UniqueId> id =
      AskForId(attacker, gang.sessions_[static_cast<size_t>(attacker.home())]);
  if (!id.has_value() || !gang.JoinAll(attacker, *id, ranks)) return std::nullopt;
  return gang;
}

bool Gang::Open(Attacker& attacker, int host) {
  std::optional<HostileSession> session = attacker.GreetAt(host);
  if (!session.has_value()) return false;
  const Result<SharedMemory> memory = CreateSharedMemory("hostile", region_bytes_);
  if (!memory.ok()) return false;
  // The daemon makes no pages of tenants, and ends those that leave it to. Between hosts the gang's
  // operations are to last. On one host the gang would get its share of the workers' time then, as
  // any tenant does, and the honest job's rate would tell of that alone.
  if (attacker.hosts() > 1) std::memset(memory->mapping.data(), 1, region_bytes_);
  const Result<uint32_t> region = session->TryRegister(memory->descriptor.get(), region_bytes_);
  if (!attacker.Count(region.status())) return false;
  sessions_.push_back(std::move(*session));
  regions_.push_back(*region);
  return true;
}

bool Gang::JoinAll(Attacker& attacker, const UniqueId& id, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const Result<uint32_t> member = session_of(rank).TryJoin(id, ranks, rank);
    if (!attacker.Count(member.status())) return false;
    members_.push_back({.index = *member});
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (!AwaitState(attacker, session_of(rank), member(rank), MemberState::kReady)) return false;
  }
  return true;
}

OperationDescriptor Gang::Next(int rank, Collective collective, uint64_t count, DataType type,
                               bool ends_position) {
  Rank& self = members_[static_cast<size_t>(rank)];
  OperationDescriptor descriptor;
  descriptor.collective = collective;
  descriptor.type = type;
  // Half of the region is to hold as many blocks as there are ranks.
  const uint64_t fit = region_bytes_ / 2 / members_.size() / DataTypeSize(type);
  descriptor.count = std::min(count, fit);
  descriptor.member = descriptor.stream = self.index;
  descriptor.position = self.position + 1;
  if (ends_position) ++self.position;
  if (!IsPointToPoint(collective)) descriptor.sequence = self.sequence++;
  descriptor.root = 0;
  descriptor.send = {.offset = 0, .region = region_of(rank)};
  descriptor.receive = {.offset = region_bytes_ / 2 / 64 * 64, .region = region_of(rank)};
  if (ends_position) descriptor.flags = kLastOfPosition;
  return descriptor;
}

void Gang::PostAll(Collective collective, uint64_t count, DataType type) {
  for (int rank = 0; rank < ranks(); ++rank) {
    // The ring's end is not looked at: who overtakes the daemon is cut off.
    session_of(rank).Queue(Next(rank, collective, count, type));
  }
  RingAll();
}

bool Gang::AwaitAll(Attacker& attacker, int rank) {
  const Rank& self = members_[static_cast<size_t>(rank)];
  HostileSession& session = session_of(rank);
  const std::atomic<uint64_t>& completed = session.segment().streams[self.index].completed;
  while (completed.load() < self.position) {
    if (!attacker.TimeLeft() || session.socket().PeerGone()) return false;
    usleep(kLookEvery);
  }
  return true;
}

bool Gang::HasRoom(int rank) {
  const SubmissionRing& ring = session_of(rank).segment().ring;
  return ring.tail.load() - ring.head.load() < kRingEntries;
}

void Gang::RingAll() {
  for (HostileSession& session : sessions_) session.Ring();
}

bool Gang::WasCutOff(Attacker& attacker) {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [&](HostileSession& session) { return attacker.WasCutOff(session); });
}

UniqueId DrawId(Attacker& attacker) {
  return MakeNamedId(fmt::format("hostile-{:016x}:1", attacker.Draw()));
}

std::optional<UniqueId> AskForId(Attacker& attacker, HostileSession& session) {
  if (!attacker.Ask(session, CreateIdRequest{})) return std::nullopt;
  return session.LastReply<CreateIdReply>().id;
}

}  // namespace harmonaize::testing
