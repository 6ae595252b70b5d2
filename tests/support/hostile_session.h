#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"
#include "src/ipc/session_segment.h"
#include "src/ipc/session_versions.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::testing {

/// A session opened by hand, which can misuse everything a session has.
class HostileSession {
 public:
  /// Longest wait for an answer, in milliseconds.
  static constexpr int kAnswerWithinMs = 30000;

  /// Opens a session; failure to do so is gtest's.
  explicit HostileSession(const std::string& socket_path, const HelloRequest& hello = {},
                          const VersionRange& spoken = kSessionVersions) {
    const Status opened = Open(socket_path, hello, spoken);
    EXPECT_TRUE(opened.ok()) << opened.message();
  }
  /// Opens a session that the daemon may refuse.
  static Result<HostileSession> TryOpen(const std::string& socket_path,
                                        const HelloRequest& hello = {}) {
    HostileSession session;
    HZ_RETURN_IF_ERROR(session.Open(socket_path, hello, kSessionVersions));
    return session;
  }
  HostileSession(HostileSession&&) = default;
  HostileSession& operator=(HostileSession&&) = default;

  void Send(const std::vector<std::byte>& bytes, std::span<const int> descriptors = {}) {
    static_cast<void>(socket_.Send(bytes, descriptors));
  }
  template <typename Request>
  Status Ask(const Request& request, std::span<const int> descriptors = {},
             std::span<const std::byte> tail = {}) {
    return Exchange(Encode(Request::kType, request, tail, version_), descriptors);
  }
  template <typename Reply>
  Reply LastReply() const {
    return *DecodeBody<Reply>(*DecodeHeader(last_reply_.bytes), last_reply_.bytes);
  }
  /// Returns the length of the last reply without its header.
  size_t LastBodyBytes() const { return last_reply_.bytes.size() - sizeof(MessageHeader); }
  /// Returns the descriptors that came with the last reply.
  std::vector<FileDescriptor>& last_descriptors() { return last_reply_.descriptors; }

  ControlSocket& socket() { return socket_; }
  /// Returns the memfd of the segment.
  int segment_descriptor() const { return memory_.get(); }
  SessionSegment& segment() { return *reinterpret_cast<SessionSegment*>(mapping_.data()); }
  void Ring() {
    const uint64_t one = 1;
    // A write fails only if the bell was rung 2^64 - 2 times and never answered.
    static_cast<void>(!write(doorbell_.get(), &one, sizeof one));
  }
  void Post(const OperationDescriptor& descriptor) {
    Queue(descriptor);
    Ring();
  }
  /// Posts without waking the daemon.
  void Queue(const OperationDescriptor& descriptor) {
    SubmissionRing& ring = segment().ring;
    const uint32_t tail = ring.tail.load();
    ring.entries[tail % kRingEntries] = descriptor;
    ring.tail.store(tail + 1);
  }
  /// Returns an honest rank's all-reduce number `sequence` of one element, from 0.
  static OperationDescriptor AllReduceOf(uint32_t member, uint64_t sequence,
                                         const BufferReference& send,
                                         const BufferReference& receive) {
    OperationDescriptor descriptor;
    descriptor.sequence = sequence;
    descriptor.position = sequence + 1;
    descriptor.count = 1;
    descriptor.type = DataType::kInt32;
    descriptor.member = descriptor.stream = member;
    descriptor.send = send;
    descriptor.receive = receive;
    descriptor.flags = kLastOfPosition;
    return descriptor;
  }
  /// Waits until so many operations of the member's own stream have ended. Returns whether all
  /// failed.
  bool AllFail(uint32_t member, uint64_t operations) {
    StreamSlot& stream = segment().streams[member];
    for (int i = 0; i < 3000 && stream.completed.load() < operations; ++i) usleep(10000);
    EXPECT_EQ(stream.completed.load(), operations);
    return stream.error_count.load() == operations;
  }
  /// Joins a communicator of one rank.
  uint32_t JoinAlone(const std::string& name) { return Join(name, 1, 0); }
  uint32_t Join(const std::string& name, int ranks, int rank) {
    const Result<uint32_t> member = TryJoin(MakeNamedId(name), ranks, rank);
    EXPECT_TRUE(member.ok()) << member.status().message();
    return member.ok() ? *member : kNoMember;
  }
  /// Returns the member that stands for the rank.
  Result<uint32_t> TryJoin(const UniqueId& id, int ranks, int rank) {
    JoinRequest join;
    join.id = id;
    join.ranks = ranks;
    join.rank = rank;
    HZ_RETURN_IF_ERROR(Ask(join));
    return LastReply<MemberReply>().member;
  }
  bool WaitUntilReady(uint32_t member) {
    const auto ready = static_cast<uint32_t>(MemberState::kReady);
    for (int i = 0; i < 3000; ++i) {
      if (segment().members[member].state.load() == ready) return true;
      usleep(10000);
    }
    return false;
  }
  /// Registers shared memory, which the daemon has mapped afterwards.
  uint32_t RegisterRegion(uint64_t bytes) {
    Result<SharedMemory> memory = CreateSharedMemory("test", bytes);
    EXPECT_TRUE(memory.ok());
    if (!memory.ok()) return kNoBuffer;
    const Result<uint32_t> region = TryRegister(memory->descriptor.get(), bytes);
    EXPECT_TRUE(region.ok()) << region.status().message();
    return region.ok() ? *region : kNoBuffer;
  }
  /// Returns the number of the region that the descriptor's first `bytes` become.
  Result<uint32_t> TryRegister(int descriptor, uint64_t bytes) {
    RegisterRegionRequest request;
    request.bytes = bytes;
    HZ_RETURN_IF_ERROR(Ask(request, std::span(&descriptor, 1)));
    return LastReply<RegisterRegionReply>().region;
  }
  bool WaitUntilCutOff() {
    for (int i = 0; i < 3000; ++i) {
      if (socket_.PeerGone()) return true;
      usleep(10000);
    }
    return false;
  }

 private:
  HostileSession() = default;

  Status Exchange(const std::vector<std::byte>& request, std::span<const int> descriptors) {
    Send(request, descriptors);
    Result<ControlMessage> reply = socket_.Receive(kAnswerWithinMs);
    if (!reply.ok()) return reply.status();
    HZ_ASSIGN_OR_RETURN(const MessageHeader header, DecodeHeader(reply->bytes));
    last_reply_ = std::move(*reply);
    version_ = header.version;
    return DecodeFailure(header, last_reply_.bytes);
  }

  Status Open(const std::string& socket_path, const HelloRequest& hello,
              const VersionRange& spoken) {
    Result<ControlSocket> socket = ControlSocket::Connect(socket_path);
    if (!socket.ok()) return socket.status();
    socket_ = std::move(*socket);
    HZ_ASSIGN_OR_RETURN(SharedMemory memory, CreateSharedMemory("session", sizeof(SessionSegment)));
    const int descriptors[] = {memory.descriptor.get()};
    HZ_RETURN_IF_ERROR(Exchange(EncodeFirst(hello, spoken), descriptors));
    if (last_reply_.descriptors.size() != 1) return InternalError("a hello without a doorbell");
    mapping_ = std::move(memory.mapping);
    memory_ = std::move(memory.descriptor);
    doorbell_ = std::move(last_reply_.descriptors[0]);
    return Status::Ok();
  }

  ControlSocket socket_;
  Mapping mapping_;
  FileDescriptor memory_;  // what is mapped
  FileDescriptor doorbell_;
  ControlMessage last_reply_;
  uint16_t version_ = kProtocolVersion;  // of the session
};

}  // namespace harmonaize::testing
