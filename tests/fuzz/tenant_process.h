#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/tenant/connection.h"
#include "src/base/json_text.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"
#include "src/ipc/profile_ring.h"
#include "src/ipc/session_segment.h"
#include "src/memory/shared_memory.h"
#include "tests/fuzz/engine_runner.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {

inline constexpr size_t kPageBytes = 4096;

/// A name that no log and no document may show unchanged.
inline constexpr std::string_view kHostileName = "job\x1b[2J\xff\n";

inline void RequireCleanTexts(const nlohmann::json& value) {
  if (value.is_string()) RequireClean(value.get<std::string>(), "clean texts in documents");
  for (const nlohmann::json& one : value) {
    if (value.is_structured()) RequireCleanTexts(one);
  }
}

/// Returns a descriptor that a tenant may send with a request. Kind 0 is memory as a client
/// registers it, of `bytes` bytes; the others are kinds that no client sends. kDescriptorKinds
/// counts them.
inline FileDescriptor MakeDescriptor(size_t kind, size_t bytes) {
  const auto sealed = [](size_t size, bool has_pages = true) {
    Result<SharedMemory> memory = CreateSharedMemory("region", size);
    RequireOk(memory.status(), "memory");
    // Writing makes the pages.
    if (has_pages) std::memset(memory->mapping.data(), 1, size);
    return std::move(memory->descriptor);
  };
  switch (kind) {
    case 0: return sealed(bytes);
    case 1: {
      FileDescriptor unsealed(memfd_create("region", MFD_CLOEXEC));
      Require(ftruncate(unsealed.get(), static_cast<off_t>(bytes)) == 0, "memory without a seal");
      return unsealed;
    }
    case 2: return sealed(1);
    case 3: {
      const std::string path = "/proc/self/fd/" + std::to_string(sealed(bytes).get());
      return FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    }
    case 4: return FileDescriptor(eventfd(1, EFD_CLOEXEC));
    case 5: return FileDescriptor(open("/dev/zero", O_RDWR | O_CLOEXEC));
    case 6: return FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    default: return sealed(bytes, /*has_pages=*/false);
  }
}
inline constexpr size_t kDescriptorKinds = 8;

/// A process of a tenant: a connection to the daemon, and a session once it has said hello. All its
/// messages go through its tenant's reception.
class Process {
 public:
  Process(EngineRunner* runner, uid_t user)
      : socket_(runner->Connect(user)), connected_(socket_.valid()) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Returns false once the daemon has been seen to hang up.
  bool connected() const { return connected_; }
  uint32_t MemberAt(size_t place) const {
    return members_.empty() ? kNoMember : members_[place % members_.size()];
  }
  /// Returns whether the last request of Ask was answered, and not by a failure.
  bool answered() const { return answer_.has_value(); }
  /// Returns the last id that it was given; one of zeros before.
  const UniqueId& issued() const { return issued_; }
  /// Returns the address of its door; an id of zeros before.
  const UniqueId& door() const { return door_; }
  bool has_session() const { return view_.valid(); }
  /// Requires: has_session().
  SessionSegment& segment() { return *reinterpret_cast<SessionSegment*>(view_.data()); }

  // Requests.

  /// Sends a request without waiting for its answer. Sends nothing when too many answers are due.
  void Send(std::span<const std::byte> bytes, std::span<const int> descriptors = {}) {
    if (connected_ && socket_.Send(bytes, descriptors).ok()) ++unanswered_;
  }
  /// Reads the answer of each request, or up to the end of the connection. A request that gets
  /// neither is a finding, because the fuzzer runs out of time.
  void ReadAnswers() {
    while (connected_ && unanswered_ > 0) {
      Result<ControlMessage> answer = socket_.Receive(-1);
      connected_ = answer.ok();
      if (connected_) TakeAnswer(std::move(*answer));
    }
  }
  void Ask(std::span<const std::byte> bytes, std::span<const int> descriptors = {}) {
    ReadAnswers();
    answer_.reset();
    Send(bytes, descriptors);
    ReadAnswers();
  }

  void SayHello() {
    Result<SharedMemory> memory = CreateSharedMemory("session", sizeof(SessionSegment));
    RequireOk(memory.status(), "memory for a session");
    HelloRequest hello;
    SetFieldText(hello.program, kHostileName);
    const int descriptors[] = {memory->descriptor.get()};
    Ask(Encode(HelloRequest::kType, hello), descriptors);
    if (answered()) view_ = std::move(memory->mapping);
  }
  void Join(const std::string& name, int ranks, int rank) { Join(MakeNamedId(name), ranks, rank); }
  void Join(const UniqueId& id, int ranks, int rank) {
    JoinRequest join;
    join.id = id;
    join.ranks = ranks;
    join.rank = rank;
    SetFieldText(join.name, kHostileName);
    Ask(Encode(JoinRequest::kType, join));
  }
  void RegisterRegion(uint64_t bytes, const FileDescriptor& memory) {
    RegisterRegionRequest request;
    request.bytes = bytes;
    const int descriptors[] = {memory.get()};
    Ask(Encode(RegisterRegionRequest::kType, request), descriptors);
  }
  /// Registers a region as a client does.
  void RegisterRegion(size_t pages) {
    const size_t bytes = pages * kPageBytes;
    RegisterRegion(bytes, MakeDescriptor(0, bytes));
  }
  /// Has the daemon read a ring of profiler events, which Scribble writes to.
  void OpenProfile(uint64_t communicator) {
    Result<SharedMemory> memory = CreateSharedMemory("profile", sizeof(ProfileRing));
    RequireOk(memory.status(), "memory for a ring");
    // Writing makes the pages.
    std::memset(memory->mapping.data(), 0, sizeof(ProfileRing));
    const int descriptors[] = {memory->descriptor.get()};
    Ask(Encode(OpenProfileRequest::kType, OpenProfileRequest{communicator}), descriptors);
    if (answered()) profile_ = std::move(memory->mapping);
  }
  /// Asks for a document, and reads it to its end.
  template <typename Request>
  void ReadDocument(const Request& request) {
    Ask(Encode(Request::kType, request));
    std::string text;
    while (answer_.has_value()) {
      const Result<DocumentReply> reply =
          DecodeBody<DocumentReply>(answer_->header, answer_->bytes);
      RequireOk(reply.status(), "an answer with a piece of a document");
      text += TextOf(std::span(answer_->bytes).subspan(sizeof(MessageHeader) + sizeof *reply));
      if (text.size() >= reply->bytes) return RequireDocument(text, reply->bytes);
      const size_t before = text.size();
      Ask(Encode(DocumentRequest::kType, DocumentRequest{before}));
      Require(!answer_.has_value() || answer_->header.tail_bytes > 0, "a document goes on");
    }
  }
  /// Closes the sending direction of the connection.
  void StopSending() {
    shutdown(socket_.fd(), SHUT_WR);
    connected_ = false;
  }

  // The memory that it shares with the daemon.

  void Post(const OperationDescriptor& descriptor) {
    if (!has_session()) return;
    SubmissionRing& ring = segment().ring;
    const uint32_t tail = ring.tail.load();
    ring.entries[tail % kRingEntries] = descriptor;
    ring.tail.store(tail + 1);
    Ring();
  }
  /// Returns the next operation of an honest rank in its own queue.
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
    ScribbleOn(view_, offset, bytes);
    ScribbleOn(inline_, offset, bytes);
    ScribbleOn(profile_, offset, bytes);
  }

 private:
  struct Answer {
    MessageHeader header;
    std::vector<std::byte> bytes;
  };

  static void ScribbleOn(const Mapping& memory, size_t offset, std::span<const std::byte> bytes) {
    if (memory.size() <= bytes.size()) return;
    std::memcpy(memory.data() + offset % (memory.size() - bytes.size()), bytes.data(),
                bytes.size());
  }

  static void RequireDocument(const std::string& text, uint64_t bytes) {
    Require(text.size() == bytes, "a document is as long as it says");
    const auto document = ReadJson(text);
    Require(document.is_object(), "a document that can be read");
    RequireCleanTexts(document);
  }

  void TakeAnswer(ControlMessage message) {
    --unanswered_;
    const Result<MessageHeader> header = DecodeHeader(message.bytes);
    RequireOk(header.status(), "an answer that can be read");
    const Status failure = DecodeFailure(*header, message.bytes);
    if (!failure.ok()) {
      Require(failure.code() > Code::kOk && failure.code() <= Code::kUnavailable, "a known code");
      Require(failure.code() != Code::kInternalError, "no exception");
      return RequireClean(failure.message(), "a clean reason");
    }
    NoteWhatItBrings(*header, message);
    answer_ = {*header, std::move(message.bytes)};
  }

  void NoteWhatItBrings(const MessageHeader& header, const ControlMessage& message) {
    if (const auto member = DecodeBody<MemberReply>(header, message.bytes);
        member.ok() && IsAboutMembers(header.type) && member->member < kMaxMembers) {
      members_.push_back(member->member);
      positions_[member->member] = 0;
      sequences_[member->member] = 0;
    }
    if (const auto created = DecodeBody<CreateIdReply>(header, message.bytes); created.ok()) {
      issued_ = created->id;
    }
    if (const auto opened = DecodeBody<OpenDoorReply>(header, message.bytes);
        opened.ok() && header.type == MessageType::kOpenDoor) {
      door_ = opened->door;
    }
    if (header.type == MessageType::kHello) {
      Require(message.descriptors.size() == 1, "a session's bell");
      bell_ = FileDescriptor(dup(message.descriptors[0].get()));
    } else if (header.type == MessageType::kAttachInline && !message.descriptors.empty()) {
      inline_ =
          Map(message.descriptors[0], DecodeBody<AttachInlineReply>(header, message.bytes)->bytes);
    }
  }

  static Mapping Map(const FileDescriptor& memory, uint64_t bytes) {
    Result<Mapping> mapped =
        MapForeign(memory.get(), bytes, HugePageFiles::kRefuse, Access::kReadAndWrite);
    RequireOk(mapped.status(), "memory of the daemon's that can be mapped");
    return std::move(*mapped);
  }

  static bool IsAboutMembers(MessageType type) {
    return type == MessageType::kJoin || type == MessageType::kSplit ||
           type == MessageType::kShrink || type == MessageType::kGrow ||
           type == MessageType::kKnock || type == MessageType::kTakeKnock;
  }

  ControlSocket socket_;
  bool connected_;
  int unanswered_ = 0;
  std::optional<Answer> answer_;  ///< The last answer that was no failure.
  Mapping view_;                  // of the session's segment
  FileDescriptor bell_;
  Mapping inline_;
  Mapping profile_;
  UniqueId issued_;
  UniqueId door_;
  std::vector<uint32_t> members_;
  std::array<uint64_t, kMaxMembers> positions_{};
  std::array<uint64_t, kMaxMembers> sequences_{};
};

}  // namespace harmonaize::fuzz
