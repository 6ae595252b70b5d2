// All that a tenant can do to a daemon: connections with and without a hello, requests with
// descriptors of any kind, descriptors in its ring, and whatever it likes anywhere in the memory
// that it shares with the daemon. Receptions and the engine are real ones with their threads and a
// worker; the input is a programme of what some tenants do. In the end nothing of them is left, and
// a neighbour is served as before.

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/ipc/messages.h"
#include "src/ipc/session_segment.h"
#include "tests/fuzz/engine_runner.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tenant_process.h"

namespace harmonaize::fuzz {
namespace {

using namespace daemon;

constexpr size_t kMostActions = 100;
/// Requests that one action sends before it reads an answer; more than a socket takes.
constexpr size_t kMostUnread = 255;
constexpr uid_t kNeighbour = 2000;
constexpr auto kLastMessageType = static_cast<size_t>(MessageType::kCloseTuning);

EngineRunner& Runner() {
  static EngineRunner* const kRunner = [] {
    Config config;
    config.workers = 1;
    config.worker_placement = "none";
    config.engine_spin_us = 0;
    config.measure_again = false;
    // So soon that ranks are late within an input.
    config.late_after_seconds = 0.002;
    // For so long what ranks disagreed about is remembered, at their tenant's expense.
    config.formation_timeout_seconds = 0.02;
    // So little that an input can reach each limit.
    config.quota = {.connections = 16,
                    .sessions = 8,
                    .communicators = 16,
                    .ranks = 32,
                    .unique_ids = 4,
                    .tickets = 4,
                    .newcomers = 4,
                    .regions = 8,
                    // Rings of profiler events take most of it.
                    .region_bytes = 2 * sizeof(ProfileRing) + 16 * kPageBytes,
                    .memory_bytes = int64_t{4} << 20,
                    .outstanding_operations = 200};
    return new EngineRunner(config);
  }();
  return *kRunner;
}

/// A tenant that does nothing wrong, and must not notice what others do.
class Neighbour {
 public:
  Neighbour() : process_(&Runner(), kNeighbour) {
    process_.SayHello();
    process_.Join("neighbour", 1, 0);
    process_.RegisterRegion(1);
    Require(process_.has_session() && process_.MemberAt(0) != kNoMember, "a neighbour is let in");
    RequireServed();
    holdings_ = Runner().holdings();
  }

  void RequireServed() {
    const uint32_t member = process_.MemberAt(0);
    OperationDescriptor descriptor = process_.NextOf(member);
    descriptor.sequence = process_.NextSequence(member);
    descriptor.count = 16;
    descriptor.type = DataType::kFloat32;
    descriptor.send = descriptor.receive = {.offset = 0, .region = 1};
    process_.Post(descriptor);
    const StreamSlot& stream = process_.segment().streams[member];
    while (stream.completed.load() != descriptor.position) std::this_thread::yield();
    Require(stream.error_count.load() == 0, "a neighbour's operations go well");
    EstimateRequest estimate;
    estimate.member = member;
    estimate.count = descriptor.count;
    process_.Ask(Encode(EstimateRequest::kType, estimate));
    Require(process_.answered(), "a neighbour's requests go well");
  }

  /// Waits until the daemon holds nothing but what the neighbour has.
  void AwaitToBeAlone() const { Runner().AwaitHoldings(holdings_); }

 private:
  Process process_;
  EngineRunner::Holdings holdings_;
};

// ---------------------------------------------------------------------------------------------
// What an input says

std::vector<std::byte> TakeRequest(Input* input) {
  MessageHeader header;
  header.type = static_cast<MessageType>(input->TakeUpTo(kLastMessageType));
  header.tail_bytes = static_cast<uint32_t>(input->TakeUpTo(8));
  const std::span<const std::byte> body = input->TakeBytes(input->TakeUpTo(255));
  std::vector<std::byte> bytes(sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

/// An operation whose fields are what they often are.
void PostOften(Input* input, Process* process) {
  const uint32_t member = process->MemberAt(input->TakeUpTo(3));
  OperationDescriptor descriptor = process->NextOf(member);
  descriptor.collective = static_cast<Collective>(input->TakeUpTo(kCollectiveCount));
  descriptor.type = static_cast<DataType>(input->TakeUpTo(kDataTypeCount));
  descriptor.op = static_cast<ReduceOperator>(input->TakeUpTo(kReduceOperatorCount));
  descriptor.root = static_cast<int32_t>(input->TakeUpTo(3));
  descriptor.count = input->Take<uint16_t>() % 700;
  descriptor.send = {.offset = 16 * input->TakeUpTo(255),
                     .region = static_cast<uint32_t>(input->TakeUpTo(2))};
  descriptor.receive = {.offset = 16 * input->TakeUpTo(255),
                        .region = static_cast<uint32_t>(input->TakeUpTo(2))};
  descriptor.flags = static_cast<uint8_t>(input->TakeUpTo(3));
  if (descriptor.collective < Collective::kSend) {
    descriptor.sequence = process->NextSequence(member);
  }
  process->Post(descriptor);
}

/// A message in a pipe, whose fields are what they often are.
void PostMessage(Input* input, Process* process) {
  OperationDescriptor descriptor;
  descriptor.member = process->MemberAt(input->TakeUpTo(3));
  const bool sends = input->TakeUpTo(1) == 1;
  descriptor.collective = sends ? Collective::kSend : Collective::kReceive;
  descriptor.type = DataType::kInt8;
  descriptor.root = static_cast<int32_t>(input->TakeUpTo(2));
  descriptor.scalar = input->TakeUpTo(3);
  descriptor.sequence = input->TakeUpTo(7);
  descriptor.count = input->Take<uint16_t>();
  const BufferReference data{.offset = 16 * input->TakeUpTo(255),
                             .region = static_cast<uint32_t>(input->TakeUpTo(2))};
  const BufferReference outcome{.offset = 8 * input->TakeUpTo(255),
                                .region = static_cast<uint32_t>(input->TakeUpTo(2))};
  descriptor.send = sends ? data : outcome;
  descriptor.receive = sends ? outcome : data;
  descriptor.flags =
      static_cast<uint8_t>(kPipeMessage | (input->TakeUpTo(1) == 1 ? kNotAwaited : 0));
  const size_t odd_flag = input->TakeUpTo(31);
  if (odd_flag < 8) descriptor.flags ^= static_cast<uint8_t>(1u << odd_flag);
  process->Post(descriptor);
}

void ClosePipe(Input* input, Process* process) {
  ClosePipeRequest request;
  request.member = process->MemberAt(input->TakeUpTo(3));
  request.peer = static_cast<int32_t>(input->TakeUpTo(3)) - 1;
  request.pipe = static_cast<uint32_t>(input->TakeUpTo(3));
  process->Ask(Encode(ClosePipeRequest::kType, request));
}

/// A ring, or memory that is none.
void OpenProfile(Input* input, Process* process) {
  if (input->TakeUpTo(3) > 0) return process->OpenProfile(input->TakeUpTo(2));
  const FileDescriptor odd = MakeDescriptor(input->TakeUpTo(kDescriptorKinds - 1), kPageBytes);
  const int descriptors[] = {odd.get()};
  process->Ask(Encode(OpenProfileRequest::kType, OpenProfileRequest{}), descriptors);
}

/// A tuner's position, or memory that is none.
void OpenTuning(Input* input, Process* process) {
  const OpenTuningRequest request{.communicator = input->TakeUpTo(3),
                                  .ranks = static_cast<int32_t>(input->TakeUpTo(4)),
                                  .hosts = static_cast<int32_t>(input->TakeUpTo(4))};
  const FileDescriptor odd = MakeDescriptor(input->TakeUpTo(kDescriptorKinds - 1), kPageBytes);
  const int descriptors[] = {odd.get()};
  process->Ask(Encode(OpenTuningRequest::kType, request), descriptors);
}

void PostAnything(Input* input, Process* process) {
  OperationDescriptor descriptor = process->NextOf(process->MemberAt(input->TakeUpTo(3)));
  const size_t place = input->TakeUpTo(sizeof descriptor - 1);
  const auto bytes = input->TakeBytes(std::min(input->TakeUpTo(63), sizeof descriptor - place));
  std::memcpy(reinterpret_cast<std::byte*>(&descriptor) + place, bytes.data(), bytes.size());
  process->Post(descriptor);
}

void ScribbleAnything(Input* input, Process* process) {
  const auto offset = input->Take<uint32_t>();
  const std::span<const std::byte> bytes = input->TakeBytes(input->TakeUpTo(63));
  if (bytes.empty()) return;
  process->Scribble(offset, bytes);
  process->Ring();
}

/// Some descriptors, of any kind, with a request that may be about other memory than they are.
void RegisterAnything(Input* input, Process* process) {
  RegisterRegionRequest request;
  request.bytes = input->TakeUpTo(3) * kPageBytes + input->TakeUpTo(1);
  const size_t count = input->TakeUpTo(kMaxDescriptorsPerMessage);
  std::vector<FileDescriptor> kept;
  std::vector<int> sent;
  for (size_t i = 0; i < count; ++i) {
    kept.push_back(MakeDescriptor(input->TakeUpTo(kDescriptorKinds - 1), 2 * kPageBytes));
    sent.push_back(kept.back().get());
  }
  process->Ask(Encode(RegisterRegionRequest::kType, request), sent);
}

void ReadADocument(Input* input, Process* process) {
  if (input->TakeUpTo(1) == 0) return process->ReadDocument(StatusRequest{});
  ExplainRequest explain;
  SetFieldText(explain.communicator, kHostileName);
  process->ReadDocument(explain);
}

/// Somebody who says one thing, and hangs up.
void SayWithoutHello(Input* input, uid_t user) {
  Process stranger(&Runner(), user);
  if (input->TakeUpTo(1) == 0) return stranger.Ask(TakeRequest(input));
  ReadADocument(input, &stranger);
}

void SendMany(Input* input, Process* process) {
  const size_t times = input->TakeUpTo(kMostUnread);
  const std::vector<std::byte> request = TakeRequest(input);
  for (size_t i = 0; i < times; ++i) process->Send(request);
}

/// Two processes of one user, and one of another.
class Tenants {
 public:
  void Act(Input* input) {
    const size_t place = input->TakeUpTo(processes_.size() - 1);
    const uid_t user = place == 2 ? 1001 : 1000;
    std::unique_ptr<Process>& process = processes_[place];
    if (process == nullptr || !process->connected()) {
      process = std::make_unique<Process>(&Runner(), user);
      process->SayHello();
    }
    ActAs(input, user, &process);
    if (process == nullptr) return;
    if (process->issued() != UniqueId{}) issued_ = process->issued();
    if (process->door() != UniqueId{}) door_ = process->door();
  }

 private:
  void ActAs(Input* input, uid_t user, std::unique_ptr<Process>* process) {
    switch (input->TakeUpTo(22)) {
      case 0: return (*process)->Ask(TakeRequest(input));
      case 1: return JoinByName(input, process->get());
      case 2: return (*process)->RegisterRegion(input->TakeUpTo(3) + 1);
      case 3: return PostAnything(input, process->get());
      case 4: return ScribbleAnything(input, process->get());
      case 5: return (*process)->Ask(input->TakeBytes(input->TakeUpTo(255)));
      case 6: return process->reset();
      case 7: return PostOften(input, process->get());
      case 8: return SayWithoutHello(input, user);
      case 9: return RegisterAnything(input, process->get());
      case 10: return ReadADocument(input, process->get());
      case 11: return SendMany(input, process->get());
      case 12: return (*process)->StopSending();
      case 13: return JoinIssued(input, process->get());
      case 14: return JoinGrowth(input, process->get());
      case 15: return (*process)->Ask(Encode(OpenDoorRequest::kType, OpenDoorRequest{}));
      case 16: return (*process)->Ask(Encode(KnockRequest::kType, KnockRequest{.door = door_}));
      case 17: return (*process)->Ask(Encode(TakeKnockRequest::kType, TakeKnockRequest{}));
      case 18: return ClosePipe(input, process->get());
      case 19: return PostMessage(input, process->get());
      case 20: return OpenProfile(input, process->get());
      case 21: return OpenTuning(input, process->get());
      default: return (*process)->Ask(Encode(NcclSettingsRequest::kType, NcclSettingsRequest{}));
    }
  }

  static void JoinByName(Input* input, Process* process) {
    const std::string name = input->TakeUpTo(1) == 0 ? "one" : "two";
    const auto ranks = static_cast<int>(input->TakeUpTo(4));
    process->Join(name, ranks, static_cast<int>(input->TakeUpTo(4)) - 1);
  }
  void JoinIssued(Input* input, Process* process) const {
    const auto ranks = static_cast<int>(input->TakeUpTo(4));
    process->Join(issued_, ranks, static_cast<int>(input->TakeUpTo(4)) - 1);
  }
  void JoinGrowth(Input* input, Process* process) const {
    GrowRequest grow;
    grow.id = issued_;
    grow.ranks = static_cast<int>(input->TakeUpTo(4));
    grow.rank = static_cast<int>(input->TakeUpTo(4)) - 1;
    process->Ask(Encode(GrowRequest::kType, grow));
  }

  std::array<std::unique_ptr<Process>, 3> processes_;
  UniqueId issued_;  ///< To one of them, last.
  UniqueId door_;    ///< Of one of them, the last.
};

void Run(Input input) {
  static Neighbour* const neighbour = new Neighbour;
  {
    Tenants tenants;
    for (size_t actions = 0; actions < kMostActions && !input.empty(); ++actions) {
      tenants.Act(&input);
    }
  }
  neighbour->AwaitToBeAlone();
  neighbour->RequireServed();
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
