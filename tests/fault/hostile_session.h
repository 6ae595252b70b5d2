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
#include "src/memory/shared_memory.h"

namespace harmonaize::testing {

/// A session opened by hand, that can misuse everything a session has.
class HostileSession {
 public:
  explicit HostileSession(const std::string& socket_path, const HelloRequest& hello = {}) {
    Open(socket_path, hello);
  }

  void Open(const std::string& socket_path, const HelloRequest& hello) {
    Result<ControlSocket> socket = ControlSocket::Connect(socket_path);
    if (!socket.ok()) {
      ADD_FAILURE() << socket.status().message();
      return;
    }
    socket_ = std::move(*socket);
    Send(Encode(HelloRequest::kType, hello));
    Result<ControlMessage> reply = socket_.Receive(30000);
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    ASSERT_EQ(reply->descriptors.size(), 2u);
    Result<Mapping> mapping = MapForeign(reply->descriptors[0].get(), sizeof(SessionSegment));
    ASSERT_TRUE(mapping.ok()) << mapping.status().message();
    mapping_ = std::move(*mapping);
    doorbell_ = std::move(reply->descriptors[1]);
  }

  void Send(const std::vector<std::byte>& bytes, std::span<const int> descriptors = {}) {
    static_cast<void>(socket_.Send(bytes, descriptors));
  }
  template <typename Request>
  Status Ask(const Request& request, std::span<const int> descriptors = {}) {
    Send(Encode(Request::kType, request), descriptors);
    Result<ControlMessage> reply = socket_.Receive(30000);
    if (!reply.ok()) return reply.status();
    const Result<MessageHeader> header = DecodeHeader(reply->bytes);
    if (!header.ok()) return header.status();
    last_reply_ = reply->bytes;
    return DecodeFailure(*header, reply->bytes);
  }
  template <typename Reply>
  Reply LastReply() const {
    return *DecodeBody<Reply>(*DecodeHeader(last_reply_), last_reply_);
  }

  ControlSocket& socket() { return socket_; }
  SessionSegment& segment() { return *reinterpret_cast<SessionSegment*>(mapping_.data()); }
  void Ring() {
    const uint64_t one = 1;
    ASSERT_EQ(write(doorbell_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  void Post(const OperationDescriptor& descriptor) {
    SubmissionRing& ring = segment().ring;
    const uint32_t tail = ring.tail.load();
    ring.entries[tail % kRingEntries] = descriptor;
    ring.tail.store(tail + 1);
    Ring();
  }
  /// What an honest rank posts as its all-reduce number `sequence` of one element, from 0.
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
  /// Waits until so many operations of the member's own stream have ended; whether all failed.
  bool AllFail(uint32_t member, uint64_t operations) {
    StreamSlot& stream = segment().streams[member];
    for (int i = 0; i < 3000 && stream.completed.load() < operations; ++i) usleep(10000);
    EXPECT_EQ(stream.completed.load(), operations);
    return stream.error_count.load() == operations;
  }
  /// Joins a communicator of one rank.
  uint32_t JoinAlone(const std::string& name) { return Join(name, 1, 0); }
  uint32_t Join(const std::string& name, int ranks, int rank) {
    JoinRequest join;
    join.id = MakeNamedId(name);
    join.ranks = ranks;
    join.rank = rank;
    EXPECT_TRUE(Ask(join).ok());
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
  /// Shared memory that the daemon has mapped.
  uint32_t RegisterRegion(uint64_t bytes) {
    Result<SharedMemory> memory = CreateSharedMemory("test", bytes);
    EXPECT_TRUE(memory.ok());
    if (!memory.ok()) return kNoBuffer;
    RegisterRegionRequest request;
    request.bytes = bytes;
    const int descriptors[] = {memory->descriptor.get()};
    EXPECT_TRUE(Ask(request, descriptors).ok());
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
  ControlSocket socket_;
  Mapping mapping_;
  FileDescriptor doorbell_;
  std::vector<std::byte> last_reply_;
};

}  // namespace harmonaize::testing
