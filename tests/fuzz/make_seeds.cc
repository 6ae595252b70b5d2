// Makes the seeds of fuzz tests whose inputs are binary: a small file for each kind of message.
//
//     make_seeds FOLDER      writes FOLDER/TARGET/NAME
//
// The build runs it, so that seeds speak the protocols of the sources beside it. Seeds that are
// text, and inputs that once found something, stand in seeds/.

#include <stdlib.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/events/event_log.h"
#include "daemon/probing/probe_hello.h"
#include "src/checkpoint/part_image.h"
#include "src/ipc/messages.h"
#include "src/ipc/profile_record.h"
#include "src/ipc/unique_id.h"
#include "src/transport/link/handshake.h"
#include "src/transport/tcp/wire.h"
#include "tests/fuzz/sample_messages.h"

namespace harmonaize::fuzz {
namespace {

using namespace daemon;

/// Bytes one after the other.
class Seed {
 public:
  Seed() = default;
  Seed(std::initializer_list<int> bytes) {
    for (const int byte : bytes) bytes_ += static_cast<char>(byte);
  }
  template <typename T>
  Seed& Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return Bytes(std::as_bytes(std::span(&value, 1)));
  }
  Seed& Bytes(std::span<const std::byte> bytes) {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return *this;
  }
  Seed& Text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  Seed& Append(const Seed& other) { return Text(other.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// The folder of one target.
class Seeds {
 public:
  Seeds(const std::filesystem::path& all, std::string_view target) : folder_(all / target) {
    std::filesystem::create_directories(folder_);
  }
  void Add(std::string_view name, const Seed& seed) const {
    std::ofstream(folder_ / name, std::ios::binary) << seed.bytes();
  }

 private:
  const std::filesystem::path folder_;
};

// ---------------------------------------------------------------------------------------------
// The control socket

template <typename Body>
void AddControl(const Seeds& seeds, std::string_view tail = {}) {
  Body body;
  if constexpr (requires { body.member; }) body.member = 0;
  if constexpr (requires { body.name; }) SetFieldText(body.name, "training");
  if constexpr (requires { body.id; }) body.id = MakeNamedId("10.0.0.1:7400");
  if constexpr (requires { body.door; }) body.door.kind = UniqueId::Kind::kDoor;
  const std::string name = fmt::format("request{}", static_cast<int>(Body::kType));
  seeds.Add(name, Seed().Bytes(Encode(Body::kType, body, std::as_bytes(std::span(tail)))));
}

template <typename... Bodies>
void AddControls(const Seeds& seeds) {
  (AddControl<Bodies>(seeds), ...);
}

void AddControlMessages(const Seeds& seeds) {
  AddControls<HelloRequest, CreateIdRequest, JoinRequest, SplitRequest, CreateGrowIdRequest,
              GrowRequest, LeaveRequest, AbortRequest, RevokeRequest, RegisterRegionRequest,
              UnregisterRegionRequest, OpenStreamRequest, CloseStreamRequest, EstimateRequest,
              StatusRequest, AttachInlineRequest, OfferRegionRequest, MapPeerRegionRequest,
              ExplainRequest, DocumentRequest, MakeTicketRequest, BurnTicketsRequest,
              NewcomersRequest, AdmitRequest, JoinJobRequest, LostRanksRequest, OpenDoorRequest,
              KnockRequest, TakeKnockRequest, ClosePipeRequest, NcclSettingsRequest,
              OpenProfileRequest, OpenTuningRequest, CloseTuningRequest>(seeds);
  AddControl<ShrinkRequest>(seeds, "\1\0\0\0");
  AddControl<ProbeRequest>(seeds, "10.0.0.1:7400\n10.0.0.2\n");
  const VersionRange spoken = {kOldestProtocolVersion, kProtocolVersion};
  seeds.Add("first", Seed().Bytes(EncodeFirst(HelloRequest{}, spoken)));
  for (const uint16_t version : {kOldestProtocolVersion, kProtocolVersion}) {
    seeds.Add(fmt::format("greeted{}", version),
              Seed().Bytes(Encode(MessageType::kHello, HelloReply{}, {}, version)));
  }
  seeds.Add("failure", Seed().Bytes(EncodeFailure(MessageType::kJoin, RemoteError("it is late"))));
}

// ---------------------------------------------------------------------------------------------
// Messages between daemons

void AddClusterMessages(const Seeds& seeds) {
  ForEachMessage([&](auto message) {
    Fill(message);
    const auto kind = static_cast<int>(message.kKind);
    const std::vector<std::byte> bytes = EncodeMessage(message);
    if (!DecodeMessage(bytes).ok()) std::fprintf(stderr, "kind %d cannot be decoded\n", kind);
    seeds.Add(fmt::format("kind{}", kind), Seed().Bytes(bytes));
  });
}

// ---------------------------------------------------------------------------------------------
// Ids, probes and the starts that hosts confirm

void AddUniqueIds(const Seeds& seeds) {
  const Seed named = Seed().Put(MakeNamedId("10.0.0.1:7400"));
  const auto add = [&](std::string_view name, const Seed& change, std::string_view address) {
    seeds.Add(name, Seed(named).Append(change).Text(address));
  };
  add("ipv4", {0, 0}, "10.0.0.1:7400");
  add("ipv6", {0, 0}, "[fd00::1]:7000");
  add("device", {0, 0}, "[fe80::1%lo]:7000");
  add("no_port", {0, 0}, "fd00::1");
  add("changed", {0x21, 1}, "10.0.0.1");
}

void AddProbeHellos(const Seeds& seeds) {
  ProbeHello hello{.set = 3, .transfer = 1};
  hello.token.fill(7);
  const Seed said = Seed().Bytes(EncodeProbeHello(hello));
  const std::string_view addresses = "10.0.0.1:7400\n[fd00::1]:7400\n10.0.0.2\n";
  seeds.Add("right", Seed(said).Put(hello.token).Text(addresses));
  seeds.Add("wrong", Seed(said).Put(ProbeToken{}).Text(addresses));
}

void AddStartConfirmations(const Seeds& seeds) {
  Seed all;
  for (int sequence = 0; sequence < 3; ++sequence) {
    for (int host = 0; host < 3; ++host) all.Append({2, sequence, 0, host, 1});
  }
  seeds.Add("agreed", all);
  seeds.Add("disagreed", all.Append({2, 7, 0, 1, 1, 2, 7, 1, 2, 2, 2, 7, 2, 1, 1}));
  seeds.Add("each", {0, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 3, 1, 1, 1, 4, 1, 1, 1, 5, 1, 1, 1});
}

// ---------------------------------------------------------------------------------------------
// Connections of daemons

void AddHandshakes(const Seeds& seeds) {
  using namespace transport;
  const Seed whole = {0xff, 0, 0, 0, 0, 0, 0, 0, 0};
  for (const Purpose purpose : {Purpose::kControl, Purpose::kRail, Purpose::kMove}) {
    Greeting greeting{.purpose = purpose, .link = 77};
    greeting.instance.fill(std::byte{3});
    seeds.Add(fmt::format("purpose{}", static_cast<int>(purpose)),
              Seed(whole).Bytes(EncodeGreeting(greeting)).Put(Proof{}));
  }
  const auto add = [&](std::string_view name, const Greeting& greeting) {
    seeds.Add(name, Seed(whole).Bytes(EncodeGreeting(greeting)).Put(Proof{}));
  };
  add("earlier", {.version = 6, .versions = {0, 0}});
  add("later", {.version = 8, .versions = {8, 9}});
  add("backwards", {.version = 7, .versions = {9, 7}});
  seeds.Add("other", Seed(whole).Text("GET / HTTP/1.1\r\n\r\n"));
  seeds.Add("changed", {0xff, 0x30, 1});
}

void AddControlFrames(const Seeds& seeds) {
  using namespace transport;
  Hello hello{.token = 5, .dead_after_ms = 2000, .movable = true, .rails = {}};
  hello.rails.push_back({RailAnnouncement::Kind::kTcp, 24, "10.0.0.1:7401"});
  hello.rails.push_back({RailAnnouncement::Kind::kUcx, 0, "worker"});
  std::vector<std::byte> stream;
  AppendFrame(FrameType::kHello, EncodeHello(hello), &stream);
  AppendFrame(FrameType::kAdmit, {}, &stream);
  AppendFrame(FrameType::kGoodbye, std::as_bytes(std::span("why", 3)), &stream);
  seeds.Add("stream", Seed({0xff}).Bytes(stream));
  seeds.Add("bytes", Seed({0}).Bytes(stream));
}

void AddRailFrames(const Seeds& seeds) {
  // As rail_frame_fuzzer takes them: what to do, then the numbers of it.
  const Seed small_receive = {0, 0, 1};
  const Seed large_receive = {0, 0, 4};
  const Seed large_send = {1, 0, 4};
  const Seed eager = {4, 1, 0, 1, 1, 0, 0, 0, 1};
  const Seed offer = {4, 2, 0, 4, 1, 0, 3, 0, 0};
  seeds.Add("eager", Seed(small_receive).Append(eager).Append(eager));
  Seed bulk = Seed(large_receive).Append(offer);
  for (int place = 0; place < 4; ++place) bulk.Append({4, 4, 0, 4, 1, 1, 0, place, 1});
  seeds.Add("bulk", bulk);
  seeds.Add("clear", Seed(large_send).Append({4, 3, 0, 4, 1, 1, 0, 1, 0}));
  seeds.Add("cancel", Seed(large_receive).Append(offer).Append({2, 0}));
  seeds.Add("abandon", Seed(offer).Append({4, 6, 0, 4, 1, 0, 0, 0, 0}));
}

// ---------------------------------------------------------------------------------------------
// Tenants, as tenant_fuzzer takes them: which process, what it does, then the numbers of it.

template <typename Body>
Seed Asks(int process, const Body& body) {
  const Seed head = {process, 0, static_cast<int>(Body::kType), 0, static_cast<int>(sizeof body)};
  return Seed(head).Put(body);
}

Seed Joins(int process, int ranks, int rank) {
  return {process, 1, 0, ranks, rank + 1};
}
Seed Registers(int process) {
  return {process, 2, 0};
}
/// 16 elements of float32, from the beginning of its first region to the same place.
Seed Posts(int process, Collective collective, int root) {
  const int float32 = static_cast<int>(DataType::kFloat32);
  return {process, 7, 0, static_cast<int>(collective), float32, 0, root, 16, 0, 0, 1, 0, 1, 1};
}

/// A message of 300 bytes in pipe 1.
Seed PostsMessage(int process, int rank, bool sends) {
  return {process, 19, 0, sends ? 1 : 0, 1 - rank, 1, 0, 44, 1, 0, 1, 1, 0, 0};
}

/// Doors, knocks and messages in pipes, in and out of order. `pair` makes a communicator of the
/// first two processes, with memory.
void AddPipes(const Seeds& seeds, const Seed& pair) {
  const Seed knocks = {0, 15, 1, 16, 0, 17};
  seeds.Add("doors", Seed(knocks).Append({1, 16, 1, 16, 0, 17, 0, 17}));
  seeds.Add("door-of-another-user", {0, 15, 2, 16, 0, 17});
  seeds.Add("knock-given-up", Seed(knocks)
                                  .Append({1, 16})
                                  .Append(Asks(1, AbortRequest{.member = 1}))
                                  .Append({0, 17, 0, 6}));
  const Seed sends = PostsMessage(0, 0, true);
  const Seed receives = PostsMessage(1, 1, false);
  seeds.Add("messages", Seed(pair).Append(sends).Append(receives));
  seeds.Add("message-twice", Seed(pair).Append(sends).Append(sends).Append(receives));
  seeds.Add("messages-and-operations",
            Seed(pair).Append(sends).Append(Posts(0, Collective::kAllReduce, 0)).Append(receives));
  seeds.Add("pipe-closed", Seed(pair).Append(sends).Append({1, 18, 0, 0, 1}).Append(receives));
  seeds.Add("pipe-to-oneself",
            Seed(pair).Append(PostsMessage(0, 1, true)).Append({0, 18, 0, 0, 1}));
  seeds.Add("message-left", Seed(pair).Append(sends).Append({1, 6}));
}

void AddTenants(const Seeds& seeds) {
  const Seed alone = Seed(Joins(0, 1, 0)).Append(Registers(0));
  seeds.Add("alone", Seed(alone).Append(Posts(0, Collective::kAllReduce, 0)));
  Seed pair = Seed(Joins(0, 2, 0)).Append(Joins(1, 2, 1)).Append(Registers(0)).Append(Registers(1));
  seeds.Add("late", Seed(pair).Append(Posts(0, Collective::kAllReduce, 0)));
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto one = static_cast<Collective>(i);
    // A receive for a send.
    const Collective other = one == Collective::kSend      ? Collective::kReceive
                             : one == Collective::kReceive ? Collective::kSend
                                                           : one;
    const bool pairs = IsPointToPoint(one);
    seeds.Add(fmt::format("pair{}", i),
              Seed(pair).Append(Posts(0, one, pairs ? 1 : 0)).Append(Posts(1, other, 0)));
  }
  seeds.Add("split", Seed(pair)
                         .Append(Asks(0, SplitRequest{.member = 4095, .has_color = 1}))
                         .Append(Asks(0, SplitRequest{.member = 0, .has_color = 1}))
                         .Append(Asks(1, SplitRequest{.member = 0, .has_color = 1})));
  seeds.Add("shrink", Seed(pair).Append(Asks(0, ShrinkRequest{.member = 0})));
  seeds.Add("grow", Seed(alone)
                        .Append(Asks(0, CreateGrowIdRequest{.member = 0}))
                        .Append(Asks(0, GrowRequest{.id = {}, .member = 0, .ranks = 2}))
                        .Append({1, 14, 2, 2}));
  seeds.Add("tickets", Seed(alone)
                           .Append(Asks(0, MakeTicketRequest{.seconds = 9, .member = 0, .uses = 2}))
                           .Append(Asks(1, JoinJobRequest{}))
                           .Append(Asks(0, NewcomersRequest{0}))
                           .Append(Asks(0, AdmitRequest{.member = 0, .most = 1}))
                           .Append(Asks(0, BurnTicketsRequest{0})));
  seeds.Add("lost", Seed(pair)
                        .Append(Asks(1, AbortRequest{.member = 0}))
                        .Append(Asks(1, LeaveRequest{.member = 0}))
                        .Append(Asks(0, LostRanksRequest{0})));
  seeds.Add("disagreement", Seed(Joins(0, 2, 0)).Append(Joins(1, 3, 1)));
  const Seed asks_for_id = Asks(0, CreateIdRequest{});
  seeds.Add("issued", Seed(asks_for_id).Append({0, 13, 2, 1, 1, 13, 2, 2}));
  seeds.Add("issued-by-one-who-ends", Seed(asks_for_id).Append({1, 13, 2, 1, 0, 6, 1, 6}));
  seeds.Add("issued-to-others", Seed(asks_for_id).Append({2, 13, 1, 1, 1, 14, 2, 2}));
  seeds.Add("leave", Seed(pair)
                         .Append(Asks(0, RevokeRequest{.member = 0}))
                         .Append(Asks(0, AbortRequest{.member = 0}))
                         .Append(Asks(0, LeaveRequest{.member = 0})));
  seeds.Add("regions", Seed(pair)
                           .Append(Asks(1, OfferRegionRequest{0, 1}))
                           .Append(Asks(0, MapPeerRegionRequest{0, 1, 1}))
                           .Append(Asks(0, UnregisterRegionRequest{1})));
  seeds.Add("streams", Seed(alone)
                           .Append(Asks(0, OpenStreamRequest{}))
                           .Append(Asks(0, CloseStreamRequest{kMaxMembers})));
  seeds.Add("documents", Seed(pair)
                             .Append({0, 10, 0, 1, 10, 1})
                             .Append(Asks(0, StatusRequest{}))
                             .Append(Asks(0, DocumentRequest{.offset = 100}))
                             .Append(Asks(0, ExplainRequest{}))
                             .Append(Asks(0, EstimateRequest{.count = 9, .member = 0}))
                             .Append(Asks(0, CreateIdRequest{})));
  // From the beginning of a region to a place 16 bytes behind.
  Seed overlapping(alone);
  for (const Collective one : {Collective::kAllGather, Collective::kBroadcast}) {
    const int float32 = static_cast<int>(DataType::kFloat32);
    overlapping.Append({0, 7, 0, static_cast<int>(one), float32, 0, 0, 16, 0, 0, 1, 1, 1, 1});
  }
  seeds.Add("overlapping-buffers", overlapping);
  AddPipes(seeds, pair);
  seeds.Add("profile", Seed({0, 20, 1, 0}).Append({0, 4, 0, 1, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8}));
  // The tail of the ring, and of the inline path's segment whatever lies there.
  seeds.Add("scribble", Seed(alone)
                            .Append(Asks(0, AttachInlineRequest{.member = 0}))
                            .Append({0, 4, 0x40, 1, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8}));
  Seed strangers;
  for (const MessageType type :
       {MessageType::kHello, MessageType::kStatus, MessageType::kProbe, MessageType::kDocument}) {
    strangers.Append({0, 8, 0, static_cast<int>(type), 0, 8, 0, 0, 0, 0, 0, 0, 0, 0});
  }
  seeds.Add("strangers", strangers.Append({0, 8, 0, 1, 0, 64, 'h'}));
  seeds.Add("read-by-a-stranger", Seed(pair).Append({2, 8, 1, 0, 2, 8, 1, 1}));
  // Regions of two pages, with a descriptor of each kind, with several, and with none.
  Seed descriptors(alone);
  for (int kind = 0; kind < 8; ++kind) descriptors.Append({0, 9, 2, 0, 1, kind});
  descriptors.Append({0, 9, 2, 1, 1, 0, 0, 9, 0, 0, 1, 0, 0, 9, 2, 0, 0});
  seeds.Add("descriptors", descriptors.Append({0, 9, 1, 0, 4, 0, 1, 4, 6}));
  // Memory of which no page is there yet.
  seeds.Add(
      "missing-pages",
      Seed(Joins(0, 1, 0)).Append({0, 9, 2, 0, 1, 7}).Append(Posts(0, Collective::kAllReduce, 0)));
  // Answers that nobody reads.
  seeds.Add("flood", Seed(pair)
                         .Append({0, 11, 255, static_cast<int>(MessageType::kStatus), 0, 4})
                         .Append({0, 0, 0, 0, 1, 10, 0}));
  seeds.Add("hung-up", Seed(pair).Append(Posts(0, Collective::kAllReduce, 0)).Append({0, 12}));
  seeds.Add("death", Seed(pair).Append(Posts(0, Collective::kAllReduce, 0)).Append({1, 6}));
}

// As cluster_peer_fuzzer takes them: what happens, then the numbers of it.
void AddPeers(const Seeds& seeds) {
  const Seed formed = {0, 1, 0, 10, 0, 0, 0, 1};
  int number = 0;
  ForEachMessage([&](const auto& message) {
    seeds.Add(fmt::format("kind{}", static_cast<int>(message.kKind)),
              Seed(formed).Append({1, 0, 0, 0, 16, 7, 0}).Append({10, 0, number++, 0, 1, 7, 1}));
  });
  // A message in a pipe that the other host opens, and closes.
  seeds.Add("pipes", Seed(formed).Append({8, 0, 0, 1, 1, 0, 3, 9, 0, 1, 1, 8, 0, 1, 1, 2, 1, 2}));
  seeds.Add("lost", Seed(formed).Append({1, 0, 0, 0, 16, 2, 0}));
}

// ---------------------------------------------------------------------------------------------
// Logs of events

std::string FileText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// A log's file and its journal, as they lie on the disk at this time.
Seed LogFiles(const std::filesystem::path& path) {
  const std::string file = FileText(path);
  // The journal ends in room that is reserved.
  std::string journal = FileText(path.string() + "-wal");
  journal.resize(journal.find_last_not_of('\0') + 1);
  return Seed().Put(static_cast<uint32_t>(file.size())).Text(file).Text(journal);
}

void AddEventLogs(const Seeds& seeds) {
  std::string folder = std::filesystem::temp_directory_path() / "harmonaize-seeds-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return;
  const std::string path = folder + "/events.db";
  Result<std::unique_ptr<EventLog>> opened =
      EventLog::Open(path, {}, [] { return int64_t{1'800'000'000}; });
  if (!opened.ok()) return;
  std::unique_ptr<EventLog> log = std::move(*opened);
  seeds.Add("empty", LogFiles(path));
  for (uint64_t sequence = 1; sequence <= 12; ++sequence) {
    const std::string job = sequence % 3 == 0 ? "" : "job";
    (void)log->Append({.job = job,
                       .sequence = log->LastSequence(job) + 1,
                       .subject = "ranks/3",
                       .expiry_ns = 5,
                       .data = R"({"text":"An event."})"});
    if (sequence == 4) seeds.Add("in-journal", LogFiles(path));
  }
  log.reset();
  seeds.Add("closed", LogFiles(path));
  std::filesystem::remove_all(folder);
}

/// Images of parts without their data, which nobody looks into.
void AddPartImages(const Seeds& seeds) {
  using checkpoint::ElementType;
  using checkpoint::Shard;
  const auto add = [&](const std::string& name, std::vector<Shard> shards) {
    const Result<checkpoint::PartLayout> layout = checkpoint::PartLayout::Of(std::move(shards));
    if (!layout.ok()) return;
    std::vector<std::byte> image(layout->data_at);
    layout->Write({.step = 1200, .save = 7, .rank = 1, .ranks = 4, .saved_ns = 5}, image.data());
    image.resize(checkpoint::kPartHeaderBytes + layout->table.size());
    seeds.Add(name, Seed().Bytes(image));
  };
  const Shard halves[] = {{"w", ElementType::kF32, false, {8, 6}, {{0, 0}, {4, 6}}},
                          {"w", ElementType::kF32, false, {8, 6}, {{2, 0}, {6, 6}}}};
  add("empty", {});
  add("scalar", {{.name = "s", .type = ElementType::kF32}});
  add("object", {{"o", ElementType::kU8, true, {3}, {{0}, {3}}}});
  add("overlapping", {halves[0], halves[1]});
}

/// A process that writes records of all kinds, and one that leaves a hole. The steps are those of
/// the target.
void AddProfileRings(const Seeds& seeds) {
  constexpr uint8_t kWrite = 0;
  constexpr uint8_t kSetTail = 2;
  constexpr uint8_t kRead = 5;
  constexpr uint8_t kLater = 6;
  const ProfiledCommunicator communicator{
      .communicator = 1, .id = 7, .ranks = 8, .rank = 3, .hosts = 2, .name = "world"};
  Seed all;
  all.Put(kWrite).Put(communicator);
  for (int kind = 1; kind < kProfileKindCount; ++kind) {
    const ProfileRecord record{.kind = static_cast<ProfileKind>(kind),
                               .function = static_cast<ProfileFunction>(kind),
                               .communicator = 1,
                               .kernels = 2,
                               .duration_ns = 5000,
                               .bytes = 4096};
    all.Put(kWrite).Put(record).Put(kRead);
  }
  seeds.Add("all kinds", all);
  seeds.Add("hole",
            Seed().Put(kSetTail).Put(uint64_t{1}).Put(kRead).Put(kLater).Put(kLater).Put(kRead));
}

void Make(const std::filesystem::path& folder) {
  AddPeers({folder, "cluster_peer"});
  AddTenants({folder, "tenant"});
  AddControlMessages({folder, "control_message"});
  AddClusterMessages({folder, "cluster_message"});
  AddUniqueIds({folder, "unique_id"});
  AddProfileRings({folder, "profile_ring"});
  AddProbeHellos({folder, "probe_hello"});
  AddStartConfirmations({folder, "start_confirmation"});
  AddHandshakes({folder, "handshake"});
  AddControlFrames({folder, "control_frame"});
  AddRailFrames({folder, "rail_frame"});
  AddEventLogs({folder, "event_log"});
  AddPartImages({folder, "part_image"});
}

}  // namespace
}  // namespace harmonaize::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  harmonaize::fuzz::Make(argv[1]);
  return 0;
}
