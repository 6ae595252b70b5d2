// More of everything than anybody needs.

#include <fcntl.h>
#include <sys/mman.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "tests/hostile/attacks.h"

namespace harmonaize::testing {
namespace {

/// Connections that one run holds at most: more than a tenant may have, together with the other
/// attackers', fewer than an ordinary process may have descriptors.
constexpr size_t kConnectionsOfAFlood = 700;

std::vector<std::byte> DrawExplain(Attacker& attacker) {
  ExplainRequest request;
  request.ranks = static_cast<int32_t>(attacker.DrawBelow(70)) - 2;
  if (attacker.OneIn(8)) request.ranks = static_cast<int32_t>(attacker.Draw());
  if (attacker.OneIn(4)) SetFieldText(request.communicator, std::to_string(attacker.Draw() % 50));
  return Encode(ExplainRequest::kType, request);
}

}  // namespace

void FloodConnections(Attacker& attacker) {
  std::vector<ControlSocket> sockets;
  while (attacker.TimeLeft()) {
    std::optional<ControlSocket> socket = attacker.Connect();
    if (!socket.has_value()) continue;
    attacker.CountBlows();
    sockets.push_back(std::move(*socket));
    if (sockets.size() > kConnectionsOfAFlood) sockets.clear();
  }
}

void FloodHellos(Attacker& attacker) {
  std::vector<HostileSession> sessions;
  while (attacker.TimeLeft()) {
    std::optional<HostileSession> session = attacker.Greet();
    if (!session.has_value()) continue;
    attacker.CountBlows();
    sessions.push_back(std::move(*session));
    if (sessions.size() > kConnectionsOfAFlood) sessions.clear();
  }
}

void FloodStatus(Attacker& attacker) {
  std::vector<ControlSocket> sockets;
  for (int i = 0; i < 50; ++i) {
    std::optional<ControlSocket> socket = attacker.Connect();
    if (!socket.has_value()) break;
    fcntl(socket->fd(), F_SETFL, O_NONBLOCK);
    sockets.push_back(std::move(*socket));
  }
  const auto status = Encode(StatusRequest::kType, StatusRequest{});
  while (attacker.TimeLeft()) {
    for (ControlSocket& socket : sockets) {
      const bool sent = socket.Send(attacker.OneIn(2) ? status : DrawExplain(attacker)).ok();
      if (sent) attacker.CountBlows();
      if (socket.Receive(0).status().code() == Code::kRemoteError) {
        std::optional<ControlSocket> another = attacker.Connect();
        if (!another.has_value()) return;
        fcntl(another->fd(), F_SETFL, O_NONBLOCK);
        socket = std::move(*another);
      }
    }
    if (sockets.empty()) return;
  }
}

// The engine has no part in it.
void FloodDocuments(Attacker& attacker) {
  std::optional<ControlSocket> socket = attacker.Connect();
  if (!socket.has_value()) return;
  bool sent = socket->Send(Encode(StatusRequest::kType, StatusRequest{})).ok();
  while (sent && attacker.TimeLeft() && socket->Receive(HostileSession::kAnswerWithinMs).ok()) {
    const DocumentRequest request{attacker.OneIn(4) ? attacker.Draw() : 0};
    sent = socket->Send(Encode(DocumentRequest::kType, request)).ok();
    attacker.CountBlows();
  }
}

void FloodUniqueIds(Attacker& attacker) {
  std::optional<HostileSession> session = attacker.Greet();
  if (!session.has_value()) return;
  while (attacker.TimeLeft() && !attacker.WasCutOff(*session)) {
    attacker.Ask(*session, CreateIdRequest{});
  }
}

void FloodGrowIds(Attacker& attacker) {
  std::optional<Gang> gang =
      Gang::Form(attacker, 1 + static_cast<int>(attacker.DrawBelow(3)), 4096);
  if (!gang.has_value()) return;
  while (attacker.TimeLeft()) {
    CreateGrowIdRequest request;
    request.member = gang->member(0);
    attacker.Ask(gang->session(), request);
  }
}

void FloodRegistrations(Attacker& attacker) {
  std::optional<HostileSession> session = attacker.Greet();
  if (!session.has_value()) return;
  while (attacker.TimeLeft() && !attacker.WasCutOff(*session)) {
    const uint64_t bytes = (attacker.DrawBelow(16) + 1) * 4096;
    const Result<SharedMemory> memory = CreateSharedMemory("flood", 1 << 16);
    if (!memory.ok()) continue;
    const Result<uint32_t> region = session->TryRegister(memory->descriptor.get(), bytes);
    attacker.Count(region.status());
    if (attacker.OneIn(8)) {
      UnregisterRegionRequest request;
      request.region = static_cast<uint32_t>(attacker.DrawBelow(5000));
      attacker.Ask(*session, request);
    }
  }
}

void FloodProbes(Attacker& attacker) {
  constexpr std::array<double, 7> kSeconds = {0,
                                              -1,
                                              1e300,
                                              1e-300,
                                              std::numeric_limits<double>::infinity(),
                                              -std::numeric_limits<double>::infinity(),
                                              std::numeric_limits<double>::quiet_NaN()};
  constexpr std::array<const char*, 6> kAddresses = {
      "127.0.0.1", "127.0.0.1:7400\n127.0.0.2:1", "[::1]:70000", "\n\n\n", "0.0.0.0:0", ""};
  while (attacker.TimeLeft()) {
    std::optional<ControlSocket> socket = attacker.Connect();
    if (!socket.has_value()) continue;
    std::string addresses = attacker.DrawOf(kAddresses);
    if (attacker.OneIn(4)) addresses.assign(attacker.DrawBelow(30'000), 'x');
    const ProbeRequest request{attacker.DrawOf(kSeconds)};
    for (int i = 0; i < 3; ++i) {
      const Status sent =
          socket->Send(Encode(ProbeRequest::kType, request,
                              std::as_bytes(std::span(addresses.data(), addresses.size()))));
      if (sent.ok()) attacker.CountBlows();
    }
    if (attacker.OneIn(2)) static_cast<void>(socket->Receive(20));
  }
}

void FloodFormations(Attacker& attacker) {
  std::optional<HostileSession> session = attacker.Greet();
  if (!session.has_value()) return;
  std::vector<uint32_t> members;
  while (attacker.TimeLeft() && !attacker.WasCutOff(*session)) {
    const int ranks = 2 + static_cast<int>(attacker.DrawBelow(500));
    const int rank = static_cast<int>(attacker.DrawBelow(static_cast<uint64_t>(ranks)));
    const Result<uint32_t> member = session->TryJoin(DrawId(attacker), ranks, rank);
    if (attacker.Count(member.status())) members.push_back(*member);
    if (members.empty() || !attacker.OneIn(10)) continue;
    LeaveRequest leave;
    leave.member = attacker.DrawOf(members);
    attacker.Ask(*session, leave);
  }
}

void FloodStreams(Attacker& attacker) {
  std::optional<HostileSession> session = attacker.Greet();
  if (!session.has_value()) return;
  while (attacker.TimeLeft() && !attacker.WasCutOff(*session)) {
    attacker.Ask(*session, OpenStreamRequest{});
    if (!attacker.OneIn(4)) continue;
    CloseStreamRequest request;
    request.stream = kMaxMembers + static_cast<uint32_t>(attacker.DrawBelow(kMaxHostStreams + 2));
    attacker.Ask(*session, request);
  }
}

// Nobody waits for the ring either: it is filled as fast as it is emptied.
void FloodOperations(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = Gang::Form(attacker, 2, 1 << 16);
    if (!gang.has_value()) continue;
    SubmissionRing& ring = gang->session().segment().ring;
    while (attacker.TimeLeft() && !attacker.WasCutOff(gang->session())) {
      for (int i = 0; i < 512 && ring.tail.load() - ring.head.load() < kRingEntries; ++i) {
        gang->session().Queue(gang->Next(0, Collective::kAllReduce, 1, DataType::kInt32));
        attacker.CountBlows();
      }
      gang->session().Ring();
    }
  }
}

}  // namespace harmonaize::testing
