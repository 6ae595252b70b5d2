#include "tests/hostile/attacker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <nlohmann/json.hpp>

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
  Result<ControlSocket> socket = ControlSocket::Connect(aim_.socket_path);
  if (socket.ok()) return std::move(*socket);
  tally_.turned_away.fetch_add(1);
  usleep(kPauseWhenTurnedAway);
  return std::nullopt;
}

std::optional<HostileSession> Attacker::Greet(const HelloRequest& hello) {
  Result<HostileSession> session = HostileSession::TryOpen(aim_.socket_path, hello);
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
  const nlohmann::json report = nlohmann::json::parse(document, nullptr, false);
  if (report.is_discarded()) return Report("a document of the daemon's is no JSON: " + document);
  if (!report.contains("tenants")) return;
  for (const nlohmann::json& tenant : report["tenants"]) {
    if (tenant.value("uid", uid_t{0}) != getuid()) {
      Report("the status tells a tenant of another: " + tenant.dump());
    }
  }
}

std::optional<Gang> Gang::Form(Attacker& attacker, int ranks, uint64_t region_bytes) {
  std::optional<HostileSession> session = attacker.Greet();
  if (!session.has_value()) return std::nullopt;
  const Result<SharedMemory> memory = CreateSharedMemory("hostile", region_bytes);
  if (!memory.ok()) return std::nullopt;
  const Result<uint32_t> region = session->TryRegister(memory->descriptor.get(), region_bytes);
  if (!attacker.Count(region.status())) return std::nullopt;
  return FormIn(attacker, std::move(*session), ranks, *region, region_bytes);
}

std::optional<Gang> Gang::FormIn(Attacker& attacker, HostileSession session, int ranks,
                                 uint32_t region, uint64_t region_bytes) {
  Gang gang(std::move(session), region, region_bytes);
  const UniqueId id = DrawId(attacker);
  for (int rank = 0; rank < ranks; ++rank) {
    const Result<uint32_t> member = gang.session_.TryJoin(id, ranks, rank);
    if (!attacker.Count(member.status())) return std::nullopt;
    gang.members_.push_back({.index = *member});
  }
  for (const Rank& rank : gang.members_) {
    if (!AwaitState(attacker, gang.session_, rank.index, MemberState::kReady)) return std::nullopt;
  }
  return gang;
}

OperationDescriptor Gang::Next(int rank, Collective collective, uint64_t count, DataType type) {
  Rank& self = members_[static_cast<size_t>(rank)];
  OperationDescriptor descriptor;
  descriptor.collective = collective;
  descriptor.type = type;
  // Half of the region is to hold as many blocks as there are ranks.
  const uint64_t fit = region_bytes_ / 2 / members_.size() / DataTypeSize(type);
  descriptor.count = std::min(count, fit);
  descriptor.member = descriptor.stream = self.index;
  descriptor.position = ++self.position;
  if (!IsPointToPoint(collective)) descriptor.sequence = self.sequence++;
  descriptor.root = 0;
  descriptor.send = {.offset = 0, .region = region_};
  descriptor.receive = {.offset = region_bytes_ / 2 / 64 * 64, .region = region_};
  descriptor.flags = kLastOfPosition;
  return descriptor;
}

void Gang::PostAll(Collective collective, uint64_t count, DataType type) {
  for (int rank = 0; rank < ranks(); ++rank) {
    // The ring's end is not looked at: who overtakes the daemon is cut off.
    session_.Queue(Next(rank, collective, count, type));
  }
  session_.Ring();
}

bool Gang::AwaitAll(Attacker& attacker, int rank) {
  const Rank& self = members_[static_cast<size_t>(rank)];
  const std::atomic<uint64_t>& completed = session_.segment().streams[self.index].completed;
  while (completed.load() < self.position) {
    if (!attacker.TimeLeft() || session_.socket().PeerGone()) return false;
    usleep(kLookEvery);
  }
  return true;
}

UniqueId DrawId(Attacker& attacker) {
  return MakeNamedId(fmt::format("hostile-{:016x}:1", attacker.Draw()));
}

}  // namespace harmonaize::testing
