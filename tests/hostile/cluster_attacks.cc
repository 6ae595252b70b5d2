// Communicators over two hosts. The attackers work together at both daemons, which have one link
// for all tenants.

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "nccl.h"
#include "tests/hostile/attacks.h"

namespace harmonaize::testing {
namespace {

constexpr uint64_t kFewBytes = uint64_t{1} << 16;
/// What is under way between hosts for some milliseconds, in bytes.
constexpr uint64_t kManyBytes = uint64_t{8} << 20;

/// Transfers that one rank begins at most: fewer than those for which the daemon ends its session.
constexpr uint64_t kMostTransfers = 60'000;
/// Descriptors that are posted before the daemon is woken.
constexpr uint64_t kBurst = 256;

/// Pauses of an attacker for the daemons' sake, in microseconds.
constexpr useconds_t kMoment = 100;

/// A direction in which one rank of a gang of two transfers.
struct Flow {
  int rank;
  Collective collective;
};

/// Has the ranks begin so many transfers each, all of them in one group.
void BeginTransfers(Attacker& attacker, Gang& gang, std::span<const Flow> flows, uint64_t count) {
  for (uint64_t begun = 0; begun < count; begun += kBurst) {
    for (const Flow& flow : flows) {
      for (uint64_t i = 0; i < kBurst; ++i) {
        while (!gang.HasRoom(flow.rank)) {
          if (!attacker.TimeLeft() || gang.WasCutOff(attacker)) return;
          usleep(kMoment);
        }
        OperationDescriptor descriptor =
            gang.Next(flow.rank, flow.collective, attacker.DrawBelow(3000), DataType::kInt32,
                      /*ends_position=*/false);
        descriptor.root = 1 - flow.rank;
        gang.session_of(flow.rank).Queue(descriptor);
      }
      gang.session_of(flow.rank).Ring();
      attacker.CountBlows(kBurst);
    }
    if (!attacker.TimeLeft()) return;
  }
}

template <typename Request>
void AskOf(Attacker& attacker, Gang& gang, int rank) {
  Request request;
  request.member = gang.member(rank);
  attacker.Ask(gang.session_of(rank), request);
}

template <typename Request>
void AskOfAll(Attacker& attacker, Gang& gang) {
  for (int rank = 0; rank < gang.ranks(); ++rank) AskOf<Request>(attacker, gang, rank);
}

/// Ends the communicator in one of the ways that there are, mostly with a moment for one host to
/// hear of the other's end.
void EndSomehow(Attacker& attacker, Gang& gang) {
  const int rank = static_cast<int>(attacker.DrawBelow(static_cast<uint64_t>(gang.ranks())));
  switch (attacker.DrawBelow(6)) {
    case 0: AskOfAll<AbortRequest>(attacker, gang); break;
    case 1: AskOfAll<LeaveRequest>(attacker, gang); break;
    case 2: AskOf<AbortRequest>(attacker, gang, rank); break;
    case 3: AskOf<RevokeRequest>(attacker, gang, rank); break;
    case 4: shutdown(gang.session_of(rank).socket().fd(), SHUT_RDWR); break;
    default: return;
  }
  usleep(static_cast<useconds_t>(attacker.DrawBelow(20'000)));
}

/// Runs the body, or has another process run it, which is killed in the midst of it.
void RunOrKill(Attacker& attacker, const std::function<void()>& body) {
  if (!attacker.OneIn(3)) return body();
  const uint64_t lives_us = attacker.DrawBelow(400'000);
  const Helper process(body);
  usleep(static_cast<useconds_t>(lives_us));
}

void FloodWithTransfers(Attacker& attacker, std::span<const Flow> flows) {
  while (attacker.TimeLeft()) {
    RunOrKill(attacker, [&] {
      std::optional<Gang> gang = Gang::FormOverHosts(attacker, 2, kFewBytes);
      if (!gang.has_value()) return;
      // As often a few as very many.
      const uint64_t count = kMostTransfers >> attacker.DrawBelow(10);
      BeginTransfers(attacker, *gang, flows, count);
      EndSomehow(attacker, *gang);
    });
  }
}

/// Changes a transfer so that it does not fit the peer's, or cannot be carried out.
void SpoilTransfer(Attacker& attacker, OperationDescriptor* descriptor) {
  switch (attacker.DrawBelow(7)) {
    case 0: descriptor->count = attacker.DrawBelow(8000); break;
    case 1: descriptor->count = ~attacker.DrawBelow(100); break;
    case 2: descriptor->type = static_cast<DataType>(attacker.DrawBelow(kDataTypeCount)); break;
    case 3: descriptor->send.region = descriptor->receive.region = attacker.DrawNumber(); break;
    case 4: descriptor->send.offset = descriptor->receive.offset = kFewBytes - 3; break;
    case 5: descriptor->root = static_cast<int32_t>(attacker.DrawNumber()); break;
    default: descriptor->send.region = descriptor->receive.region = kNoBuffer; break;
  }
}

OperationDescriptor CollectiveOf(Attacker& attacker, Gang& gang, int rank, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto collective = static_cast<Collective>(random() % kCollectiveCount);
  OperationDescriptor descriptor =
      gang.Next(rank, IsPointToPoint(collective) ? Collective::kAllReduce : collective,
                random() % 4000, static_cast<DataType>(random() % kDataTypeCount));
  descriptor.op = static_cast<ReduceOperator>(random() % kReduceOperatorCount);
  descriptor.root = static_cast<int32_t>(random() % static_cast<uint64_t>(gang.ranks()));
  attacker.CountBlows();
  return descriptor;
}

/// One rank of a job that an honest user could have, by the client library: passes memory of its
/// own on between the hosts, and reduces it, until it is ended.
void BeClient(Attacker& attacker, const UniqueId& id, int ranks, int rank, bool registered) {
  constexpr size_t kCount = kManyBytes / sizeof(int);
  setenv("HARMONAIZE_SOCKET", attacker.socket_path(rank % attacker.hosts()).c_str(), 1);
  ncclComm_t communicator = nullptr;
  if (ncclCommInitRank(&communicator, ranks, std::bit_cast<ncclUniqueId>(id), rank) !=
      ncclSuccess) {
    return;
  }
  std::vector<int> heap(registered ? 0 : 2 * kCount);
  void* memory = heap.data();
  if (registered && ncclMemAlloc(&memory, 2 * kCount * sizeof(int)) != ncclSuccess) return;
  int* const first = static_cast<int*>(memory);
  for (uint64_t round = 0;; ++round) {
    ncclGroupStart();
    if (round % 2 == 0) {
      ncclSend(first, kCount, ncclInt, (rank + 1) % ranks, communicator, nullptr);
      ncclRecv(first + kCount, kCount, ncclInt, (rank + ranks - 1) % ranks, communicator, nullptr);
    } else {
      ncclAllReduce(first, first + kCount, kCount, ncclInt, ncclMax, communicator, nullptr);
    }
    if (ncclGroupEnd() != ncclSuccess) return;
    attacker.CountBlows();
  }
}

/// Ranks of clients at work, three over the hosts, of which `disturb` gets the second.
void DisturbClients(Attacker& attacker, const std::function<void(Helper*)>& disturb) {
  constexpr int kRanks = 3;
  while (attacker.TimeLeft()) {
    std::optional<HostileSession> session = attacker.Greet();
    if (!session.has_value()) continue;
    const std::optional<UniqueId> id = AskForId(attacker, *session);
    if (!id.has_value()) continue;
    const bool registered = attacker.OneIn(2);
    const uint64_t lives_us = attacker.DrawBelow(200'000);
    const auto be = [&](int rank) {
      return [&, rank] { BeClient(attacker, *id, kRanks, rank, registered); };
    };
    const Helper first(be(0));
    Helper second(be(1));
    const Helper third(be(2));
    usleep(static_cast<useconds_t>(20'000 + lives_us));
    disturb(&second);
  }
}

/// Joins ranks in turns at the sessions; returns the members there are, by rank.
std::vector<uint32_t> JoinInTurns(Attacker& attacker, std::span<HostileSession> sessions,
                                  const UniqueId& id, int ranks) {
  std::vector<uint32_t> members;
  for (int rank = 0; rank < ranks; ++rank) {
    const Result<uint32_t> member =
        sessions[static_cast<size_t>(rank) % sessions.size()].TryJoin(id, ranks, rank);
    if (!attacker.Count(member.status())) break;
    members.push_back(*member);
  }
  return members;
}

/// Sessions at all hosts; none where a daemon refuses.
std::vector<HostileSession> GreetAll(Attacker& attacker) {
  std::vector<HostileSession> sessions;
  for (int host = 0; host < attacker.hosts(); ++host) {
    std::optional<HostileSession> session = attacker.GreetAt(host);
    if (!session.has_value()) return {};
    sessions.push_back(std::move(*session));
  }
  return sessions;
}

bool AnyCutOff(Attacker& attacker, std::span<HostileSession> sessions) {
  return std::any_of(sessions.begin(), sessions.end(),
                     [&](HostileSession& session) { return attacker.WasCutOff(session); });
}

/// This host's first address that is not its own alone; 0 where there is none.
in_addr_t OwnAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return 0;
  in_addr_t own = 0;
  for (const ifaddrs* one = all; one != nullptr && own == 0; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    const in_addr_t address = reinterpret_cast<sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr;
    if ((ntohl(address) >> 24) != IN_LOOPBACKNET) own = address;
  }
  freeifaddrs(all);
  return own;
}

/// The ports on which anybody listens at a loopback address.
std::set<uint16_t> LoopbackPorts() {
  std::set<uint16_t> ports;
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    unsigned address = 0;
    unsigned port = 0;
    unsigned state = 0;
    if (std::sscanf(line.c_str(), " %*d: %8X:%4X %*8X:%*4X %2X", &address, &port, &state) != 3) {
      continue;
    }
    constexpr unsigned kListens = 10;
    if (state == kListens && ntohl(address) >> 24 == IN_LOOPBACKNET) {
      ports.insert(static_cast<uint16_t>(port));
    }
  }
  return ports;
}

/// Listens at this host's own address on the ports that the daemons have at loopback addresses,
/// where they look for a daemon whose address a name gives; accepts, and says nothing, or nonsense.
class FalseDaemons {
 public:
  explicit FalseDaemons(in_addr_t address) {
    if (address == 0) return;
    for (const uint16_t port : LoopbackPorts()) {
      FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      sockaddr_in place{};
      place.sin_family = AF_INET;
      place.sin_addr.s_addr = address;
      place.sin_port = htons(port);
      if (bind(listener.get(), reinterpret_cast<sockaddr*>(&place), sizeof place) != 0) continue;
      if (listen(listener.get(), 64) == 0) listeners_.push_back(std::move(listener));
    }
  }

  void Accept(Attacker& attacker) {
    for (const FileDescriptor& listener : listeners_) {
      FileDescriptor guest(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!guest.valid()) continue;
      const std::vector<std::byte> nonsense = attacker.DrawBytes(attacker.DrawBelow(4000));
      static_cast<void>(send(guest.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL));
      attacker.CountBlows();
      if (attacker.OneIn(2)) guests_.push_back(std::move(guest));
    }
  }

 private:
  std::vector<FileDescriptor> listeners_;
  std::vector<FileDescriptor> guests_;
};

std::string TextOf(in_addr_t address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address, text.data(), text.size());
  return std::string(text.data()) + ":1";
}

/// An id that names no daemon, another than the one that made it, or one that it does not fit.
UniqueId DrawMisleadingId(Attacker& attacker, std::span<const UniqueId> known,
                          const std::string& own_address) {
  constexpr std::array<const char*, 6> kAddresses = {
      // Of a network for documentation, where nobody answers; of all hosts; of no host.
      "192.0.2.1:1",     "255.255.255.255:1", "240.0.0.1:1",
      "[2001:db8::1]:9", "0.0.0.0:1",         "[::ffff:127.0.0.2]:1"};
  if (attacker.OneIn(3)) return MakeNamedId(attacker.DrawOf(kAddresses));
  if (attacker.OneIn(2)) return MakeNamedId(own_address);
  UniqueId id = attacker.DrawOf(known);
  switch (attacker.DrawBelow(4)) {
    case 0: id.reserved = attacker.DrawOf(known).reserved; break;
    case 1: id.reserved[attacker.DrawBelow(id.reserved.size())] ^= 1; break;
    case 2: id.token[attacker.DrawBelow(id.token.size())] ^= 1; break;
    default: id.kind = UniqueId::Kind::kNamed; break;
  }
  return id;
}

/// Memory for a transfer, of which so much has been touched.
FileDescriptor MakePartlyTouched(uint64_t touched) {
  FileDescriptor memory(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  static_cast<void>(!ftruncate(memory.get(), static_cast<off_t>(kManyBytes)));
  fallocate(memory.get(), 0, 0, static_cast<off_t>(touched));
  fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK);
  return memory;
}

/// Takes the region, or its pages, away while it is being used.
void TakeAway(Attacker& attacker, HostileSession& session, int memory, uint32_t region) {
  const auto bytes = static_cast<off_t>(kManyBytes);
  switch (attacker.DrawBelow(4)) {
    case 0: {
      UnregisterRegionRequest request;
      request.region = region;
      for (int i = 0; i < 3; ++i) attacker.Ask(session, request);
      break;
    }
    case 1:
      if (fallocate(memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes) == 0) {
        attacker.Report("a hole in memory that another host is sent");
      }
      break;
    case 2:
      if (ftruncate(memory, 4096) == 0) attacker.Report("less memory than another host is sent");
      break;
    default: shutdown(session.socket().fd(), SHUT_RDWR); break;
  }
}

}  // namespace

void SendToNobody(Attacker& attacker) {
  constexpr std::array<Flow, 2> kFlows = {{{0, Collective::kSend}, {1, Collective::kSend}}};
  FloodWithTransfers(attacker, std::span(kFlows).first(1 + attacker.DrawBelow(2)));
}

void ReceiveFromNobody(Attacker& attacker) {
  constexpr std::array<Flow, 2> kFlows = {{{0, Collective::kReceive}, {1, Collective::kReceive}}};
  FloodWithTransfers(attacker, std::span(kFlows).first(1 + attacker.DrawBelow(2)));
}

void EndAmongTransfers(Attacker& attacker) {
  constexpr std::array<Flow, 4> kFlows = {{{0, Collective::kSend},
                                           {1, Collective::kReceive},
                                           {1, Collective::kSend},
                                           {0, Collective::kReceive}}};
  FloodWithTransfers(attacker, std::span(kFlows).first(attacker.OneIn(2) ? 2 : 4));
}

void SendWrongly(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = Gang::FormOverHosts(attacker, 2, kFewBytes);
    if (!gang.has_value()) continue;
    const uint64_t right_between = 1 + attacker.DrawBelow(8);
    const uint64_t posts = kMostTransfers >> attacker.DrawBelow(10);
    for (uint64_t i = 0; i < posts && attacker.TimeLeft() && !gang->WasCutOff(attacker); ++i) {
      for (int rank = 0; rank < 2; ++rank) {
        if (!gang->HasRoom(rank)) continue;
        // Both send now, and receive next: each finds the other's.
        const bool sends = (i + static_cast<uint64_t>(rank)) % 2 == 0;
        OperationDescriptor descriptor =
            gang->Next(rank, sends ? Collective::kSend : Collective::kReceive,
                       1 + attacker.DrawBelow(8), DataType::kInt32, attacker.OneIn(4));
        descriptor.root = 1 - rank;
        if (attacker.OneIn(right_between)) SpoilTransfer(attacker, &descriptor);
        gang->session_of(rank).Queue(descriptor);
        attacker.CountBlows();
      }
      if (i % 16 == 0) gang->RingAll();
    }
    gang->RingAll();
    EndSomehow(attacker, *gang);
  }
}

void DisagreeBetweenHosts(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    const int ranks = 2 + static_cast<int>(attacker.DrawBelow(3));
    std::optional<Gang> gang = Gang::FormOverHosts(attacker, ranks, kFewBytes);
    if (!gang.has_value()) continue;
    const uint64_t posts = 1 + attacker.DrawBelow(500);
    for (uint64_t i = 0; i < posts && attacker.TimeLeft() && !gang->WasCutOff(attacker); ++i) {
      std::array<uint64_t, 2> seeds = {attacker.Draw(), attacker.Draw()};
      if (!attacker.OneIn(8)) seeds[1] = seeds[0];
      for (int rank = 0; rank < ranks; ++rank) {
        if (!gang->HasRoom(rank)) continue;
        const uint64_t seed = seeds[static_cast<size_t>(rank % attacker.hosts())];
        gang->session_of(rank).Queue(CollectiveOf(attacker, *gang, rank, seed));
      }
      gang->RingAll();
    }
    EndSomehow(attacker, *gang);
  }
}

void BeginOnOneHost(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    RunOrKill(attacker, [&] {
      std::optional<Gang> gang = Gang::FormOverHosts(attacker, 4, kFewBytes);
      if (!gang.has_value()) return;
      const auto first = static_cast<int>(attacker.DrawBelow(2));
      const uint64_t posts = kMostTransfers >> attacker.DrawBelow(14);
      const bool in_group = attacker.OneIn(2);
      for (uint64_t i = 0; i < posts && attacker.TimeLeft() && !gang->WasCutOff(attacker); ++i) {
        if (!gang->HasRoom(first)) {
          usleep(kMoment);
          continue;
        }
        for (int rank = first; rank < 4; rank += attacker.hosts()) {
          gang->session_of(rank).Queue(
              gang->Next(rank, Collective::kAllReduce, 100, DataType::kFloat32, !in_group));
          attacker.CountBlows();
        }
        if (i % 16 == 0) gang->RingAll();
      }
      gang->RingAll();
      // Now and then the other host follows with a few.
      if (attacker.OneIn(2)) gang->PostAll(Collective::kAllReduce, 100, DataType::kFloat32);
      EndSomehow(attacker, *gang);
    });
  }
}

void KillARankBetweenHosts(Attacker& attacker) {
  DisturbClients(attacker, [](Helper* rank) {
    rank->Kill();
    usleep(5'000);
  });
}

void StopARankBetweenHosts(Attacker& attacker) {
  DisturbClients(attacker, [&](Helper* rank) {
    kill(rank->process(), SIGSTOP);
    usleep(static_cast<useconds_t>(attacker.DrawBelow(300'000)));
    if (attacker.OneIn(2)) kill(rank->process(), SIGCONT);
    usleep(5'000);
  });
}

void FormAndEnd(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::vector<HostileSession> sessions = GreetAll(attacker);
    if (sessions.empty()) continue;
    while (attacker.TimeLeft() && !AnyCutOff(attacker, sessions)) {
      const std::optional<UniqueId> id =
          AskForId(attacker, sessions[attacker.DrawBelow(sessions.size())]);
      if (!id.has_value()) break;
      const int ranks = 2 + static_cast<int>(attacker.DrawBelow(5));
      const std::vector<uint32_t> members = JoinInTurns(attacker, sessions, *id, ranks);
      // Some end while they form.
      if (attacker.OneIn(2)) usleep(static_cast<useconds_t>(attacker.DrawBelow(3000)));
      for (size_t rank = 0; rank < members.size(); ++rank) {
        HostileSession& session = sessions[rank % sessions.size()];
        if (attacker.OneIn(2)) {
          AbortRequest abort;
          abort.member = members[rank];
          attacker.Ask(session, abort);
        }
        LeaveRequest leave;
        leave.member = members[rank];
        attacker.Ask(session, leave);
      }
    }
  }
}

void FormHalf(Attacker& attacker) {
  std::vector<HostileSession> sessions = GreetAll(attacker);
  if (sessions.empty()) return;
  while (attacker.TimeLeft() && !AnyCutOff(attacker, sessions)) {
    const std::optional<UniqueId> id =
        AskForId(attacker, sessions[attacker.DrawBelow(sessions.size())]);
    if (!id.has_value()) return;
    const int ranks = 2 + static_cast<int>(attacker.DrawBelow(6));
    HostileSession& session = sessions[attacker.DrawBelow(sessions.size())];
    for (int rank = 0; rank + 1 < ranks; ++rank) {
      // Some disagree about how many they are, or come twice.
      const int told = attacker.OneIn(8) ? ranks + 1 : ranks;
      const Result<uint32_t> member = session.TryJoin(*id, told, rank);
      if (!attacker.Count(member.status()) || !attacker.OneIn(4)) continue;
      LeaveRequest leave;
      leave.member = *member;
      attacker.Ask(session, leave);
    }
  }
}

void NameAddresses(Attacker& attacker) {
  const in_addr_t own_address = OwnAddress();
  FalseDaemons listeners(own_address);
  std::vector<HostileSession> sessions = GreetAll(attacker);
  if (sessions.empty()) return;
  std::vector<UniqueId> known;
  for (HostileSession& session : sessions) {
    const std::optional<UniqueId> id = AskForId(attacker, session);
    if (!id.has_value()) return;
    known.push_back(*id);
  }
  while (attacker.TimeLeft()) {
    const int host = static_cast<int>(attacker.DrawBelow(static_cast<uint64_t>(attacker.hosts())));
    std::optional<HostileSession> session = attacker.GreetAt(host);
    if (!session.has_value()) continue;
    for (int i = 0; i < 10; ++i) {
      JoinRequest join;
      join.id = DrawMisleadingId(attacker, known, TextOf(own_address));
      join.ranks = 2;
      join.rank = static_cast<int32_t>(attacker.DrawBelow(2));
      session->Send(Encode(JoinRequest::kType, join));
      attacker.CountBlows();
      // The answer may wait for a link that does not come.
      if (attacker.OneIn(2)) static_cast<void>(session->socket().Receive(10));
      listeners.Accept(attacker);
    }
    attacker.WasCutOff(*session);
  }
}

void SpoilMemoryBetweenHosts(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = Gang::FormOverHosts(attacker, 2, 4096);
    if (!gang.has_value()) continue;
    const bool reduces = attacker.OneIn(2);
    std::array<FileDescriptor, 2> memories = {
        MakePartlyTouched(kManyBytes), MakePartlyTouched(kManyBytes >> attacker.DrawBelow(3))};
    if (attacker.OneIn(2)) std::swap(memories[0], memories[1]);
    std::array<uint32_t, 2> regions{};
    for (int rank = 0; rank < 2; ++rank) {
      const auto place = static_cast<size_t>(rank);
      const Result<uint32_t> region =
          gang->session_of(rank).TryRegister(memories[place].get(), kManyBytes);
      if (!attacker.Count(region.status())) return;
      regions[place] = *region;
    }
    for (int rank = 0; rank < 2; ++rank) {
      const uint32_t region = regions[static_cast<size_t>(rank)];
      const Collective transfer = rank == 0 ? Collective::kSend : Collective::kReceive;
      for (int i = 0; i < 4; ++i) {
        OperationDescriptor descriptor =
            gang->Next(rank, reduces ? Collective::kAllReduce : transfer, 1, DataType::kInt32);
        descriptor.count = kManyBytes / 2 / sizeof(int32_t);
        descriptor.root = reduces ? 0 : 1 - rank;
        descriptor.send = {.offset = 0, .region = region};
        descriptor.receive = {.offset = kManyBytes / 2, .region = region};
        gang->session_of(rank).Queue(descriptor);
        attacker.CountBlows();
      }
    }
    gang->RingAll();
    usleep(static_cast<useconds_t>(attacker.DrawBelow(10'000)));
    const auto spoilt = static_cast<int>(attacker.DrawBelow(2));
    TakeAway(attacker, gang->session_of(spoilt), memories[static_cast<size_t>(spoilt)].get(),
             regions[static_cast<size_t>(spoilt)]);
    gang->AwaitAll(attacker, 1 - spoilt);
  }
}

void PlanAllThereIs(Attacker& attacker) {
  constexpr uint64_t kBytes = uint64_t{1} << 20;
  std::vector<Gang> gangs;
  while (attacker.TimeLeft()) {
    const int ranks = 2 + static_cast<int>(attacker.DrawBelow(3));
    std::optional<Gang> gang = Gang::FormOverHosts(attacker, ranks, kBytes);
    if (!gang.has_value()) continue;
    for (int kind = 0; kind < kCollectiveCount && attacker.TimeLeft(); ++kind) {
      const auto collective = static_cast<Collective>(kind);
      if (IsPointToPoint(collective)) continue;
      // Each size class, up to what the region holds.
      for (uint64_t count = 1; count <= kBytes / 8 / static_cast<uint64_t>(ranks); count *= 2) {
        gang->PostAll(collective, count);
        attacker.CountBlows();
      }
      gang->AwaitAll(attacker, 0);
    }
    gangs.push_back(std::move(*gang));
    // Children have plans of their own.
    for (int i = 0; i < 8 && attacker.TimeLeft(); ++i) {
      for (int rank = 0; rank < ranks; ++rank) AskOf<SplitRequest>(attacker, gangs.back(), rank);
    }
  }
}

}  // namespace harmonaize::testing
