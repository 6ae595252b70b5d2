#pragma once

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
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

using namespace daemon;

inline constexpr size_t kPageBytes = 4096;

inline void RequireCleanTexts(const nlohmann::json& value) {
  if (value.is_string()) RequireClean(value.get<std::string>(), "clean texts in documents");
  for (const nlohmann::json& one : value) {
    if (value.is_structured()) RequireCleanTexts(one);
  }
}

/// A process of a tenant, and its session.
class Process {
 public:
  Process(EngineRunner* runner, uid_t user) : runner_(runner) {
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
    runner_->Do([&](Engine& engine) {
      added_ = engine
                   .AddSession(std::make_unique<Session>(
                       session_, connection_, "fuzz", engine.TenantOf(user),
                       std::move(memory->mapping), std::move(bell)))
                   .ok();
    });
  }
  ~Process() {
    runner_->Do([&](Engine& engine) { engine.LoseSession(session_, "died"); });
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
    runner_->Do([&](Engine& engine) {
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

  EngineRunner* const runner_;
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

}  // namespace harmonaize::fuzz
