// Doors, knocks, pipes and rings of profiler events, and the port for NCCL's RAS clients.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "src/ipc/pipe_message.h"
#include "src/ipc/profile_ring.h"
#include "src/memory/shared_memory.h"
#include "tests/hostile/attacks.h"
#include "tests/support/hostile_names.h"

namespace harmonaize::testing {
namespace {

constexpr uint64_t kFewMessageBytes = uint64_t{1} << 16;
/// Of messages that go in several parts between hosts.
constexpr uint64_t kLargeMessageBytes = uint64_t{2} << 20;

/// Most messages that one run has under way: fewer than those for which the daemon ends a session.
constexpr uint64_t kMostMessages = 60'000;
/// Messages that are posted before the daemon is woken.
constexpr uint64_t kMessagesAtOnce = 256;
/// Messages of one end of a pipe beyond which the daemon refuses (kMostMessagesOfPipe).
constexpr uint64_t kMostOfPipe = 1024;

/// Pause of an attacker for the daemons' sake, in microseconds.
constexpr useconds_t kPause = 100;

std::optional<UniqueId> OpenDoor(Attacker& attacker, HostileSession& session) {
  if (!attacker.Ask(session, OpenDoorRequest{})) return std::nullopt;
  return session.LastReply<OpenDoorReply>().door;
}

/// Returns the member that waits; kNoMember if the daemon refuses.
uint32_t Knock(Attacker& attacker, HostileSession& session, const UniqueId& door) {
  KnockRequest knock{.door = door};
  FillField(knock.name, "knock");
  if (!attacker.Ask(session, knock)) return kNoMember;
  return session.LastReply<MemberReply>().member;
}

/// A door that is the honest job's, a changed one, one that nobody has, or something else.
UniqueId DrawDoor(Attacker& attacker, std::span<const UniqueId> honest) {
  UniqueId door{.kind = UniqueId::Kind::kDoor};
  const std::vector<std::byte> token = attacker.DrawBytes(sizeof door.token);
  std::memcpy(door.token.data(), token.data(), token.size());
  if (honest.empty() || attacker.OneIn(4)) return door;
  UniqueId known = attacker.DrawOf(honest);
  switch (attacker.DrawBelow(4)) {
    case 0: known.token[attacker.DrawBelow(known.token.size())] ^= 1; return known;
    case 1: door.reserved = known.reserved; return door;
    case 2: known.kind = static_cast<UniqueId::Kind>(attacker.DrawBelow(5)); return known;
    default: return known;
  }
}

/// A message of a rank of a gang of two in a pipe, all of whose fields are right. Its data is in
/// the second half of the region, and its outcome in the first.
OperationDescriptor MessageOf(Attacker& attacker, Gang& gang, int rank, bool sends, uint32_t pipe,
                              uint64_t name) {
  OperationDescriptor descriptor;
  descriptor.collective = sends ? Collective::kSend : Collective::kReceive;
  descriptor.type = DataType::kInt8;
  descriptor.flags = attacker.OneIn(2) ? kPipeMessage : kPipeMessage | kNotAwaited;
  descriptor.member = gang.member(rank);
  descriptor.root = 1 - rank;
  descriptor.scalar = pipe;
  descriptor.sequence = name;
  descriptor.count = attacker.DrawBelow(gang.region_bytes() / 2);
  const BufferReference data{.offset = gang.region_bytes() / 2, .region = gang.region_of(rank)};
  const BufferReference outcome{.offset = 16 * attacker.DrawBelow(100),
                                .region = gang.region_of(rank)};
  descriptor.send = sends ? data : outcome;
  descriptor.receive = sends ? outcome : data;
  return descriptor;
}

void SpoilMessage(Attacker& attacker, OperationDescriptor* descriptor) {
  switch (attacker.DrawBelow(9)) {
    case 0: descriptor->count = attacker.Draw(); break;
    case 1: descriptor->scalar = attacker.Draw(); break;
    case 2: descriptor->sequence = attacker.Draw(); break;
    case 3: descriptor->root = static_cast<int32_t>(attacker.DrawNumber()); break;
    case 4: descriptor->send.region = attacker.DrawNumber(); break;
    case 5: descriptor->receive.offset = attacker.Draw(); break;
    case 6: descriptor->flags ^= static_cast<uint8_t>(1u << attacker.DrawBelow(8)); break;
    case 7: descriptor->collective = static_cast<Collective>(attacker.DrawBelow(16)); break;
    default: descriptor->member = attacker.DrawNumber(); break;
  }
}

/// Queues a descriptor once there is room. Returns false when the run is to end.
bool QueueInRoom(Attacker& attacker, Gang& gang, int rank, const OperationDescriptor& descriptor) {
  while (!gang.HasRoom(rank)) {
    if (!attacker.TimeLeft() || gang.WasCutOff(attacker)) return false;
    gang.session_of(rank).Ring();
    usleep(kPause);
  }
  gang.session_of(rank).Queue(descriptor);
  attacker.CountBlows();
  return true;
}

void ClosePipe(Attacker& attacker, Gang& gang, int rank, uint32_t pipe) {
  attacker.Ask(gang.session_of(rank),
               ClosePipeRequest{.member = gang.member(rank), .peer = 1 - rank, .pipe = pipe});
}

std::optional<Gang> FormPair(Attacker& attacker, uint64_t bytes) {
  return attacker.hosts() == 1 ? Gang::Form(attacker, 2, bytes)
                               : Gang::FormOverHosts(attacker, 2, bytes);
}

/// Connects to the daemon's port for RAS clients; -1 where it does not accept.
FileDescriptor ConnectToRas(Attacker& attacker) {
  FileDescriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(attacker.ras_port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  fcntl(client.get(), F_SETFL, O_NONBLOCK);
  return client;
}

std::string DrawRasText(Attacker& attacker) {
  constexpr std::array<const char*, 9> kLines = {
      "CLIENT PROTOCOL 2\n", "TIMEOUT 0\n",      "SET FORMAT json\n",
      "MONITOR all\n",       "VERBOSE STATUS\n", "STATUS\n",
      "TIMEOUT 99999999\n",  "GET / HTTP/1.1\n", "\n"};
  if (attacker.OneIn(3)) return std::string(1 + attacker.DrawBelow(5000), 'x');
  std::string text;
  for (uint64_t i = attacker.DrawBelow(200); i > 0; --i) text += attacker.DrawOf(kLines);
  return text;
}

}  // namespace

void KnockAtForeignDoors(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<HostileSession> session = attacker.Greet();
    if (!session.has_value()) continue;
    const std::vector<UniqueId> honest = attacker.HonestDoors();
    for (int i = 0; i < 20 && attacker.TimeLeft(); ++i) {
      const uint32_t member = Knock(attacker, *session, DrawDoor(attacker, honest));
      if (member == kNoMember) continue;
      const std::atomic<uint32_t>& state = session->segment().members[member].state;
      for (int looks = 0; looks < 20; ++looks) {
        if (state.load() != static_cast<uint32_t>(MemberState::kForming)) break;
        usleep(kPause);
      }
      if (state.load() == static_cast<uint32_t>(MemberState::kReady)) {
        attacker.Report("a door of another user's process was opened");
      }
      if (attacker.OneIn(2)) attacker.Ask(*session, TakeKnockRequest{});
    }
  }
}

void FloodKnocks(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    const int there = attacker.hosts() == 1 ? attacker.home() : 1 - attacker.home();
    std::optional<HostileSession> host = attacker.GreetAt(there);
    std::optional<HostileSession> guest = attacker.Greet();
    if (!host.has_value() || !guest.has_value()) continue;
    const std::optional<UniqueId> door = OpenDoor(attacker, *host);
    if (!door.has_value()) continue;
    const uint64_t knocks = 1 + attacker.DrawBelow(3000);
    std::vector<uint32_t> members;
    for (uint64_t i = 0; i < knocks && attacker.TimeLeft(); ++i) {
      members.push_back(Knock(attacker, *guest, *door));
      if (members.back() == kNoMember) break;
      if (attacker.OneIn(8)) attacker.Ask(*guest, AbortRequest{.member = attacker.DrawOf(members)});
      if (attacker.OneIn(8)) attacker.Ask(*host, TakeKnockRequest{});
      if (attacker.WasCutOff(*guest)) break;
    }
    // Either side ends first, with what waits.
    if (attacker.OneIn(2)) host.reset();
  }
}

void FloodDoors(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::vector<HostileSession> sessions;
    std::vector<UniqueId> doors;
    while (attacker.TimeLeft() && sessions.size() < 200) {
      std::optional<HostileSession> session = attacker.Greet();
      if (!session.has_value()) break;
      const std::optional<UniqueId> door = OpenDoor(attacker, *session);
      sessions.push_back(std::move(*session));
      if (!door.has_value()) break;
      doors.push_back(*door);
      for (int i = 0; i < 5; ++i) Knock(attacker, sessions.back(), attacker.DrawOf(doors));
    }
  }
}

void PostAnyMessages(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = FormPair(attacker, kFewMessageBytes);
    if (!gang.has_value()) continue;
    for (uint64_t i = 0; attacker.TimeLeft() && !gang->WasCutOff(attacker); ++i) {
      const int rank = static_cast<int>(attacker.DrawBelow(2));
      // Few pipes and names, so that the halves of many messages meet.
      OperationDescriptor descriptor =
          MessageOf(attacker, *gang, rank, attacker.OneIn(2),
                    static_cast<uint32_t>(attacker.DrawBelow(4)), attacker.DrawBelow(20));
      if (attacker.OneIn(20)) SpoilMessage(attacker, &descriptor);
      if (!QueueInRoom(attacker, *gang, rank, descriptor)) break;
      if (attacker.OneIn(10)) gang->PostAll(Collective::kAllReduce, attacker.DrawBelow(1000));
      if (i % 16 == 15) gang->RingAll();
      if (attacker.OneIn(200)) {
        attacker.Ask(gang->session_of(rank),
                     ClosePipeRequest{.member = attacker.DrawNumber(),
                                      .peer = static_cast<int32_t>(attacker.DrawNumber()),
                                      .pipe = attacker.DrawNumber()});
      }
    }
  }
}

void SendMessagesToNobody(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang =
        FormPair(attacker, attacker.OneIn(2) ? kFewMessageBytes : uint64_t{4} * kLargeMessageBytes);
    if (!gang.has_value()) continue;
    const uint64_t messages = kMostMessages >> attacker.DrawBelow(10);
    const bool sends = attacker.OneIn(2);
    bool on = true;
    for (uint64_t i = 0; on && i < messages; ++i) {
      const auto pipe = static_cast<uint32_t>(i / kMostOfPipe);
      on = QueueInRoom(attacker, *gang, 0, MessageOf(attacker, *gang, 0, sends, pipe, i));
      if (i % kMessagesAtOnce == 0) gang->RingAll();
    }
    gang->RingAll();
    usleep(static_cast<useconds_t>(attacker.DrawBelow(20'000)));
    // Some end them pipe by pipe, some with the communicator, some by going.
    const bool closes = attacker.OneIn(2);
    for (uint32_t pipe = 0; closes && pipe <= messages / kMostOfPipe; ++pipe) {
      ClosePipe(attacker, *gang, static_cast<int>(attacker.DrawBelow(2)), pipe);
    }
    if (attacker.OneIn(2)) attacker.Ask(gang->session(), AbortRequest{.member = gang->member(0)});
  }
}

void ClosePipesInTheMiddle(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = FormPair(attacker, uint64_t{4} * kLargeMessageBytes);
    if (!gang.has_value()) continue;
    for (uint32_t pipe = 0; attacker.TimeLeft() && !gang->WasCutOff(attacker); ++pipe) {
      const uint64_t messages = 1 + attacker.DrawBelow(32);
      for (uint64_t name = 0; name < messages; ++name) {
        for (const int rank : {0, 1}) {
          // Now and then a half is missing.
          if (attacker.OneIn(10)) continue;
          if (!QueueInRoom(attacker, *gang, rank,
                           MessageOf(attacker, *gang, rank, rank == 0, pipe, name))) {
            break;
          }
        }
      }
      gang->RingAll();
      usleep(static_cast<useconds_t>(attacker.DrawBelow(2000)));
      const int first = static_cast<int>(attacker.DrawBelow(2));
      ClosePipe(attacker, *gang, first, pipe);
      if (!attacker.OneIn(3)) ClosePipe(attacker, *gang, 1 - first, pipe);
    }
  }
}

void FillProfileRings(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<HostileSession> session = attacker.Greet();
    const Result<SharedMemory> memory = CreateSharedMemory("hostile", sizeof(ProfileRing));
    if (!session.has_value() || !memory.ok()) continue;
    std::memset(memory->mapping.data(), 0, sizeof(ProfileRing));
    const int descriptor = memory->descriptor.get();
    const bool opened = attacker.Ask(*session, OpenProfileRequest{1 + attacker.DrawBelow(3)},
                                     std::span(&descriptor, 1));
    if (!opened) continue;
    auto& ring = *reinterpret_cast<ProfileRing*>(memory->mapping.data());
    const uint64_t kind = attacker.DrawBelow(3);
    for (int i = 0; i < 30 && attacker.TimeLeft() && !attacker.WasCutOff(*session); ++i) {
      for (uint64_t record = 0; record < kProfileSlots; ++record) {
        ProfileWords words;
        for (uint64_t& word : words) word = attacker.Draw();
        // Mostly records that a plugin could write, of all kinds and many communicators.
        if (kind != 0) words[0] = attacker.DrawBelow(16) | attacker.DrawBelow(1000) << 32;
        if (!WriteProfileWords(&ring, words)) break;
        attacker.CountBlows();
      }
      if (kind == 2) ring.tail.store(attacker.Draw());
      if (attacker.OneIn(3)) ring.lost.store(attacker.Draw());
      if (attacker.OneIn(10) && ftruncate(descriptor, 0) == 0) attacker.Report("a ring shrank");
      usleep(1000);
    }
  }
}

void MisuseRas(Attacker& attacker) {
  std::vector<FileDescriptor> clients;
  std::array<char, 4096> answers;
  while (attacker.TimeLeft()) {
    if (clients.size() < 30) {
      FileDescriptor client = ConnectToRas(attacker);
      if (!client.valid()) {
        usleep(kPause);
        continue;
      }
      clients.push_back(std::move(client));
    }
    FileDescriptor& client = clients[attacker.DrawBelow(clients.size())];
    // Some say nothing, and some read nothing.
    if (!attacker.OneIn(4)) {
      const std::string text = DrawRasText(attacker);
      const ssize_t sent = send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) client.Reset();
      attacker.CountBlows();
    }
    if (client.valid() && attacker.OneIn(2)) {
      while (recv(client.get(), answers.data(), answers.size(), 0) > 0) continue;
    }
    std::erase_if(clients, [](const FileDescriptor& one) { return !one.valid(); });
    if (attacker.OneIn(100)) clients.clear();
  }
}

}  // namespace harmonaize::testing
