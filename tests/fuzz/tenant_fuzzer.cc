// All that a tenant can do to a daemon, but connect to it: requests, descriptors in its ring, and
// whatever it likes anywhere in the memory that it shares with the daemon. The engine is a real one
// with its thread and a worker; the input is a programme of what some tenants do. In the end
// nothing of them is left, and a neighbour is served as before.

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/requests.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"
#include "src/ipc/session_segment.h"
#include "src/memory/shared_memory.h"
#include "tests/fuzz/engine_runner.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using namespace daemon;

constexpr size_t kMostActions = 100;
constexpr size_t kPageBytes = 4096;

EngineRunner& Runner() {
  static EngineRunner* const kRunner = [] {
    Config config;
    config.workers = 1;
    config.worker_placement = "none";
    config.engine_spin_us = 0;
    // So soon that ranks are late within an input.
    config.late_after_seconds = 0.002;
    config.quota = {.sessions = 8,
                    .communicators = 32,
                    .regions = 32,
                    .region_bytes = 64 * kPageBytes,
                    .outstanding_operations = 200};
    return new EngineRunner(config);
  }();
  return *kRunner;
}

void RequireCleanTexts(const nlohmann::json& value) {
  if (value.is_string()) RequireClean(value.get<std::string>(), "clean texts in documents");
  for (const nlohmann::json& one : value) {
    if (value.is_structured()) RequireCleanTexts(one);
  }
}

/// A process of a tenant, and its session.
class Process {
 public:
  explicit Process(uid_t user) {
    static uint32_t last_session = 0;
    session_ = ++last_session;
    int pair[2] = {-1, -1};
    Require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
            "a connection");
    socket_ = ControlSocket(FileDescriptor(pair[0]));
    connection_ =
        std::make_shared<Connection>(ControlSocket(FileDescriptor(pair[1])),
                                     PeerCredentials{getpid(), user, user}, FileDescriptor());
    Result<SharedMemory> memory = CreateSharedMemory("segment", sizeof(SessionSegment));
    RequireOk(memory.status(), "a segment");
    // Its own view, which stays when the session has ended.
    Result<Mapping> view = MapForeign(memory->descriptor.get(), sizeof(SessionSegment));
    RequireOk(view.status(), "a view of the segment");
    view_ = std::move(*view);
    FileDescriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    bell_ = FileDescriptor(dup(bell.get()));
    Runner().Do([&](Engine& engine) {
      added_ = engine
                   .AddSession(std::make_unique<Session>(
                       session_, connection_, "fuzz", engine.TenantOf(user),
                       std::move(memory->mapping), std::move(bell)))
                   .ok();
    });
  }
  ~Process() {
    Runner().Do([&](Engine& engine) { engine.LoseSession(session_, "died"); });
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  SessionSegment& segment() { return *reinterpret_cast<SessionSegment*>(view_.data()); }
  uint32_t MemberAt(size_t place) const {
    return members_.empty() ? kNoMember : members_[place % members_.size()];
  }

  void Ask(std::vector<std::byte> bytes, RegionMemory region = {}) {
    if (!added_) return;
    const ControlMessage message{std::move(bytes), {}};
    Runner().Do([&](Engine& engine) {
      AnswerRequest(engine, session_, connection_, message, std::move(region));
    });
    ReadReplies();
  }

  void Join(const std::string& name, int ranks, int rank) {
    JoinRequest join;
    join.id = MakeNamedId(name);
    join.ranks = ranks;
    join.rank = rank;
    Ask(Encode(JoinRequest::kType, join));
  }

  /// As the server's thread maps what a tenant registers.
  void RegisterRegion(size_t pages) {
    Result<SharedMemory> memory = CreateSharedMemory("region", pages * kPageBytes);
    RequireOk(memory.status(), "a region");
    Result<Mapping> mapping = MapForeign(memory->descriptor.get(), pages * kPageBytes);
    RequireOk(mapping.status(), "a region that can be mapped");
    FaultGuard guard(mapping->data(), mapping->size());
    RegisterRegionRequest request;
    request.bytes = pages * kPageBytes;
    Ask(Encode(RegisterRegionRequest::kType, request),
        {std::move(memory->descriptor), std::move(*mapping), std::move(guard), -1});
  }

  void Post(const OperationDescriptor& descriptor) {
    SubmissionRing& ring = segment().ring;
    const uint32_t tail = ring.tail.load();
    ring.entries[tail % kRingEntries] = descriptor;
    ring.tail.store(tail + 1);
    Ring();
  }

  /// What an honest rank posts next in its own queue.
  OperationDescriptor NextOf(uint32_t member) {
    OperationDescriptor descriptor;
    descriptor.member = descriptor.stream = member;
    descriptor.flags = kLastOfPosition;
    if (member >= kMaxMembers) return descriptor;
    descriptor.position = ++positions_[member];
    return descriptor;
  }
  uint64_t NextSequence(uint32_t member) { return member < kMaxMembers ? sequences_[member]++ : 0; }

  void Ring() {
    const uint64_t one = 1;
    static_cast<void>(!write(bell_.get(), &one, sizeof one));
  }

  void Scribble(size_t offset, std::span<const std::byte> bytes) {
    const size_t place = offset % (view_.size() - bytes.size());
    std::memcpy(view_.data() + place, bytes.data(), bytes.size());
  }
  void ScribbleInline(size_t offset, std::span<const std::byte> bytes) {
    if (inline_.size() <= bytes.size()) return;
    std::memcpy(inline_.data() + offset % (inline_.size() - bytes.size()), bytes.data(),
                bytes.size());
  }

 private:
  void ReadReplies() {
    while (true) {
      const Result<ControlMessage> reply = socket_.Receive(0);
      if (!reply.ok()) return;
      ReadReply(*reply);
    }
  }

  void ReadReply(const ControlMessage& reply) {
    const Result<MessageHeader> header = DecodeHeader(reply.bytes);
    RequireOk(header.status(), "a reply that can be read");
    const Status failure = DecodeFailure(*header, reply.bytes);
    if (!failure.ok()) {
      Require(failure.code() > Code::kOk && failure.code() <= Code::kUnavailable, "a known code");
      Require(failure.code() != Code::kInternalError, "no exception");
      return RequireClean(failure.message(), "a clean reason");
    }
    if (const auto member = DecodeBody<MemberReply>(*header, reply.bytes);
        member.ok() && IsAboutMembers(header->type) && member->member < kMaxMembers) {
      members_.push_back(member->member);
      positions_[member->member] = 0;
      sequences_[member->member] = 0;
    }
    if (reply.descriptors.empty()) return;
    const int descriptor = reply.descriptors.front().get();
    if (header->type == MessageType::kAttachInline) {
      const auto attached = DecodeBody<AttachInlineReply>(*header, reply.bytes);
      Result<Mapping> mapped = MapForeign(descriptor, attached->bytes);
      RequireOk(mapped.status(), "the segment of the inline path");
      inline_ = std::move(*mapped);
    } else if (header->type == MessageType::kStatus || header->type == MessageType::kExplain) {
      ReadDocument(descriptor, DecodeBody<DocumentReply>(*header, reply.bytes)->bytes);
    }
  }

  static bool IsAboutMembers(MessageType type) {
    return type == MessageType::kJoin || type == MessageType::kSplit ||
           type == MessageType::kShrink || type == MessageType::kGrow;
  }

  static void ReadDocument(int descriptor, uint64_t bytes) {
    std::string text(bytes, '\0');
    Require(pread(descriptor, text.data(), bytes, 0) == static_cast<ssize_t>(bytes), "a document");
    const auto document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    Require(document.is_object(), "a document that can be read");
    RequireCleanTexts(document);
  }

  uint32_t session_ = 0;
  bool added_ = false;
  ControlSocket socket_;
  std::shared_ptr<Connection> connection_;
  Mapping view_;
  FileDescriptor bell_;
  Mapping inline_;
  std::vector<uint32_t> members_;
  std::array<uint64_t, kMaxMembers> positions_{};
  std::array<uint64_t, kMaxMembers> sequences_{};
};

/// A tenant that does nothing wrong, and must not notice what others do.
class Neighbour {
 public:
  Neighbour() : process_(2000) {
    process_.Join("neighbour", 1, 0);
    process_.RegisterRegion(1);
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
  }

 private:
  Process process_;
};

/// Whether the engine holds nothing but what the neighbour has.
bool NothingLeft(Engine& engine) {
  bool nothing = engine.sessions().size() == 1 && engine.membership().communicators().size() == 1;
  for (const auto& [user, tenant] : engine.tenants()) {
    const int64_t own = user == 2000 ? 1 : 0;
    nothing = nothing && tenant->sessions == own && tenant->communicators == own &&
              tenant->regions == own && tenant->region_descriptors == own &&
              tenant->region_bytes == own * static_cast<int64_t>(kPageBytes);
  }
  return nothing;
}

// ---------------------------------------------------------------------------------------------
// What an input says

void AskAnything(Input* input, Process* process) {
  MessageHeader header;
  header.type = static_cast<MessageType>(input->TakeUpTo(21));
  header.tail_bytes = static_cast<uint32_t>(input->TakeUpTo(8));
  const std::span<const std::byte> body = input->TakeBytes(input->TakeUpTo(255));
  std::vector<std::byte> bytes(sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  bytes.insert(bytes.end(), body.begin(), body.end());
  // Its region comes with the message, which RegisterRegion sees to.
  if (header.type != MessageType::kRegisterRegion) process->Ask(std::move(bytes));
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
  process->ScribbleInline(offset, bytes);
  process->Ring();
}

void Act(Input* input, std::unique_ptr<Process>* process) {
  switch (input->TakeUpTo(7)) {
    case 0: return AskAnything(input, process->get());
    case 1: {
      const std::string name = input->TakeUpTo(1) == 0 ? "one" : "two";
      const auto ranks = static_cast<int>(input->TakeUpTo(4));
      return (*process)->Join(name, ranks, static_cast<int>(input->TakeUpTo(4)) - 1);
    }
    case 2: return (*process)->RegisterRegion(input->TakeUpTo(3) + 1);
    case 3: return PostAnything(input, process->get());
    case 4: return ScribbleAnything(input, process->get());
    case 5: {
      const auto bytes = input->TakeBytes(input->TakeUpTo(255));
      return (*process)->Ask({bytes.begin(), bytes.end()});
    }
    case 6: return process->reset();
    default: return PostOften(input, process->get());
  }
}

void Run(Input input) {
  static Neighbour* const neighbour = new Neighbour;
  {
    // Two of one user, and one of another.
    std::array<std::unique_ptr<Process>, 3> processes;
    for (size_t actions = 0; actions < kMostActions && !input.empty(); ++actions) {
      const size_t place = input.TakeUpTo(processes.size() - 1);
      if (processes[place] == nullptr) {
        processes[place] = std::make_unique<Process>(place == 2 ? 1001 : 1000);
      }
      Act(&input, &processes[place]);
    }
  }
  bool nothing_left = false;
  while (!nothing_left) {
    Runner().Do([&](Engine& engine) { nothing_left = NothingLeft(engine); });
  }
  neighbour->RequireServed();
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
