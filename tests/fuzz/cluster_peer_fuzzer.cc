// What other daemons say, one message after the other, to a daemon whose ranks form communicators
// with theirs: it believes them, and no message of any shape makes it crash. The engine is a real
// one at the home, with a fabric and the controller; the input says which messages come, what their
// fields hold, and what a tenant of this host does meanwhile. Messages of probes that would have it
// connect to addresses of the input's choice are left out.

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/cluster/address_seal.h"
#include "daemon/multihost/host_group.h"
#include "src/transport/cluster_key.h"
#include "tests/fuzz/engine_runner.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/sample_messages.h"
#include "tests/fuzz/tenant_process.h"

namespace harmonaize::fuzz {
namespace {

using namespace daemon;
using nlohmann::json;

constexpr size_t kMostActions = 60;
constexpr uid_t kUser = 1000;
/// Room for messages of several parts.
constexpr size_t kRegionPages = 56;
/// Daemons that no link leads to: what this one says to them is for nobody.
constexpr transport::PeerId kPeers[] = {1'000'001, 1'000'002};

constexpr std::string_view kFabric = R"([[host]]
name = "a"
[[host.nic]]
device = "lo"
address = "127.0.0.1"
[[host]]
name = "b"
[[host.nic]]
device = "lo"
address = "127.0.0.2"
[[host]]
name = "c"
[[host.nic]]
device = "lo"
address = "127.0.0.3"
[[switch]]
name = "s"
[[link]]
from = ["a", "b", "c"]
to = "s"
rate = "1Gbit"
)";

std::string FabricPath() {
  const int file = memfd_create("fabric", MFD_CLOEXEC);
  Require(write(file, kFabric.data(), kFabric.size()) == static_cast<ssize_t>(kFabric.size()),
          "room for the fabric file");
  return "/proc/self/fd/" + std::to_string(file);
}

EngineRunner& Runner() {
  static EngineRunner* const kRunner = [] {
    Config config;
    config.workers = 1;
    config.worker_placement = "none";
    config.engine_spin_us = 0;
    config.measure_again = false;
    config.late_after_seconds = 0.002;
    // For so long what ranks disagreed about is remembered, at their tenant's expense.
    config.formation_timeout_seconds = 0.02;
    config.cluster.address = "127.0.0.1:0";
    config.cluster.allow_unauthenticated = true;
    config.cluster.fabric = FabricPath();
    config.cluster.host = "a";
    config.cluster.controller = "a";
    config.quota.region_bytes = 64 * kPageBytes;
    return new EngineRunner(config);
  }();
  return *kRunner;
}

// ---------------------------------------------------------------------------------------------
// Messages

/// A message of each kind.
const std::vector<json>& Samples() {
  static const std::vector<json> kSamples = [] {
    std::vector<json> samples;
    ForEachMessage([&](auto message) {
      Fill(message);
      const std::vector<std::byte> bytes = EncodeMessage(message);
      samples.push_back(json::from_cbor(TextOf(bytes)));
    });
    return samples;
  }();
  return kSamples;
}

json OtherInteger(uint8_t choice) {
  constexpr int64_t kOdd[] = {-1, INT_MAX, INT_MIN, int64_t{1} << 32, INT64_MAX, 1 << 20};
  if (choice < 128) return choice - 1;
  if (choice < 250) return kOdd[choice % std::size(kOdd)];
  return UINT64_MAX;
}

json OtherNumber(uint8_t choice) {
  constexpr double kOdd[] = {0, 1e-9, 0.001, 0.5, 1, 60, 1e9, 1e18, 1e300, -1};
  return kOdd[choice % std::size(kOdd)];
}

/// Changes what a document holds, by a byte for each value; 0 leaves it. Texts stay: some are
/// addresses, and nobody is to be connected to.
void Vary(Input* input, json* value) {
  if (value->is_object()) {
    for (json& one : *value) Vary(input, &one);
    return;
  }
  const auto choice = input->Take<uint8_t>();
  if (value->is_array()) {
    if (choice != 0 && !value->empty()) {
      const json first = value->front();
      value->get_ref<json::array_t&>().resize((choice - 1u) % 4, first);
    }
    // An id, or a token.
    if (value->size() >= sizeof(ProbeToken)) return;
    for (json& one : *value) Vary(input, &one);
  } else if (choice != 0 && value->is_boolean()) {
    *value = !value->get<bool>();
  } else if (choice != 0 && value->is_number_float()) {
    *value = OtherNumber(choice);
  } else if (choice != 0 && value->is_number()) {
    *value = OtherInteger(choice);
  }
}

/// The door of a process of this host, or a wrong one, and an id that another daemon has given out.
void KnockAt(const UniqueId& door, KnockMessage* knock) {
  static const UniqueId kElsewhere = [] {
    UniqueId id = *MakeSecretId();
    const AddressSeal seal{transport::ClusterKey()};
    RequireOk(seal.Seal(*transport::NetworkAddress::Parse("127.0.0.2:1"), &id), "a sealed address");
    return id;
  }();
  knock->door.assign(door.token.begin(), door.token.end());
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&kElsewhere);
  knock->id.assign(bytes, bytes + sizeof kElsewhere);
}

/// Small numbers of communicators stand for those that there are, and of a fabric for this one.
void PointAtWhatIsThere(Engine& engine, ClusterMessage* message) {
  const auto key_of = [&](uint64_t number) {
    uint64_t place = 0;
    for (const auto& [id, communicator] : engine.report_sources().communicators->all()) {
      const HostGroup* const group = communicator->host_group();
      if (group != nullptr && ++place == number) return group->roster().key;
    }
    return number;
  };
  Change(message, [&](auto& body) {
    if constexpr (requires { body.communicator; }) body.communicator = key_of(body.communicator);
    if constexpr (requires { body.fabric; }) {
      if (body.fabric == 0) body.fabric = engine.fabrics().own();
    }
    if constexpr (requires {
                    body.jobs;
                    body.waits;
                  }) {
      for (auto& job : body.jobs) job.communicator = key_of(job.communicator);
      for (auto& wait : body.waits) wait.communicator = key_of(wait.communicator);
    }
  });
}

bool ConnectsElsewhere(const ClusterMessage& message) {
  const MessageKind kind = message.kind();
  return kind == MessageKind::kProbeOpen || kind == MessageKind::kProbeRoundTrips ||
         kind == MessageKind::kProbeConnect || kind == MessageKind::kProbeRun;
}

void Say(Input* input, const Process& process) {
  const transport::PeerId peer = kPeers[input->TakeUpTo(std::size(kPeers) - 1)];
  json document = Samples()[input->TakeUpTo(Samples().size() - 1)];
  Input changes(input->TakeBytes(input->TakeUpTo(63)));
  Vary(&changes, &document[1]);
  const std::vector<uint8_t> bytes = json::to_cbor(document);
  Result<ClusterMessage> message = DecodeMessage(std::as_bytes(std::span(bytes)));
  if (!message.ok() || ConnectsElsewhere(*message)) return;
  const bool finds_the_door = input->TakeUpTo(3) > 0;
  Runner().Do([&](Engine& engine) {
    PointAtWhatIsThere(engine, &*message);
    if (const auto* const knock = message->As<KnockMessage>(); knock != nullptr && finds_the_door) {
      KnockMessage at_the_door = *knock;
      KnockAt(process.door(), &at_the_door);
      *message = at_the_door;
    }
    engine.membership().OnMessage(peer, *message);
    engine.probes().OnMessage(peer, *message);
    engine.nccl_tuning().OnMessage(peer, *message);
    engine.control_loop().OnMessage(peer, *message);
  });
}

void Lose(transport::PeerId peer) {
  Runner().Do([&](Engine& engine) {
    engine.membership().OnPeerLost(peer);
    engine.probes().OnPeerLost(peer);
    engine.nccl_tuning().OnPeerLost(peer);
    engine.control_loop().OnPeerLost(peer);
  });
}

// ---------------------------------------------------------------------------------------------
// What an input says

void Post(Input* input, Process* process) {
  const uint32_t member = process->MemberAt(input->TakeUpTo(3));
  if (member == kNoMember) return;
  OperationDescriptor descriptor = process->NextOf(member);
  descriptor.collective = static_cast<Collective>(input->TakeUpTo(kCollectiveCount - 1));
  descriptor.type = DataType::kFloat32;
  descriptor.root = static_cast<int32_t>(input->TakeUpTo(2));
  descriptor.count = input->Take<uint8_t>();
  descriptor.send = descriptor.receive = {.offset = 0, .region = 1};
  if (!IsPointToPoint(descriptor.collective)) descriptor.sequence = process->NextSequence(member);
  process->Post(descriptor);
}

/// A message in a pipe, of so many parts that notes go ahead.
void PostMessage(Input* input, Process* process) {
  const uint32_t member = process->MemberAt(input->TakeUpTo(3));
  if (member == kNoMember) return;
  OperationDescriptor descriptor;
  descriptor.member = member;
  descriptor.collective = input->TakeUpTo(1) == 0 ? Collective::kSend : Collective::kReceive;
  descriptor.type = DataType::kInt8;
  descriptor.root = static_cast<int32_t>(input->TakeUpTo(1));
  descriptor.scalar = input->TakeUpTo(3);
  descriptor.sequence = input->TakeUpTo(7);
  descriptor.count = input->TakeUpTo(3) * (uint64_t{64} << 10);
  descriptor.flags = kPipeMessage;
  const BufferReference data{.offset = kPageBytes, .region = 1};
  const BufferReference outcome{.offset = 0, .region = 1};
  const bool sends = descriptor.collective == Collective::kSend;
  descriptor.send = sends ? data : outcome;
  descriptor.receive = sends ? outcome : data;
  process->Post(descriptor);
}

template <typename Body>
void AskAsMember(Input* input, Process* process, Body body) {
  body.member = process->MemberAt(input->TakeUpTo(3));
  process->Ask(Encode(Body::kType, body));
}

void Act(Input* input, Process* process) {
  switch (input->TakeUpTo(12)) {
    case 0:
      return process->Join("one", static_cast<int>(input->TakeUpTo(2)) + 1,
                           static_cast<int>(input->TakeUpTo(2)));
    case 1: return Post(input, process);
    case 2: return Lose(kPeers[input->TakeUpTo(std::size(kPeers) - 1)]);
    case 3: {
      SplitRequest split;
      split.has_color = static_cast<uint32_t>(input->TakeUpTo(1));
      return AskAsMember(input, process, split);
    }
    case 4: return AskAsMember(input, process, LeaveRequest{});
    case 5: {
      const size_t what = input->TakeUpTo(3);
      if (what == 0) return AskAsMember(input, process, AbortRequest{});
      if (what == 1) return AskAsMember(input, process, RevokeRequest{});
      if (what == 2) return AskAsMember(input, process, ShrinkRequest{});
      return AskAsMember(input, process, GrowRequest{.id = {}, .ranks = 3});
    }
    case 6: return process->ReadDocument(StatusRequest{});
    case 7: {
      if (input->TakeUpTo(1) == 1) {
        return process->Ask(Encode(TakeKnockRequest::kType, TakeKnockRequest{}));
      }
      return process->Ask(Encode(OpenDoorRequest::kType, OpenDoorRequest{}));
    }
    case 8: return PostMessage(input, process);
    case 9:
      return AskAsMember(input, process,
                         ClosePipeRequest{.peer = static_cast<int32_t>(input->TakeUpTo(1)),
                                          .pipe = static_cast<uint32_t>(input->TakeUpTo(3))});
    default: return Say(input, *process);
  }
}

void Run(Input input) {
  {
    Process process(&Runner(), kUser);
    process.SayHello();
    process.RegisterRegion(kRegionPages);
    for (size_t actions = 0; actions < kMostActions && !input.empty(); ++actions) {
      Act(&input, &process);
    }
  }
  for (const transport::PeerId peer : kPeers) Lose(peer);
  Runner().AwaitHoldings({});
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
