#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"
#include "src/ipc/shared_text.h"
#include "src/ipc/unique_id.h"

namespace harmonaize {
namespace {

TEST(SharedText, ReadersNeverSeeHalfALine) {
  auto text = std::make_unique<ErrorText>();
  text->Set(std::string(300, 'a'));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; i < 20000; ++i) {
      text->Set(std::string(static_cast<size_t>(100 + i % 300), static_cast<char>('a' + i % 26)));
    }
    stop = true;
  });
  while (!stop) {
    const std::string seen = text->Get();
    if (seen.empty()) continue;
    EXPECT_EQ(seen.find_first_not_of(seen.front()), std::string::npos);
    EXPECT_EQ(seen.size(), seen.size() < 100 ? 100 : seen.size());
  }
  writer.join();
  text->Set(std::string(5000, 'z'));
  EXPECT_EQ(text->Get().size(), ErrorText::kCapacity);
}

TEST(UniqueId, SecretsDifferAndNamesAgree) {
  const Result<UniqueId> a = MakeSecretId();
  const Result<UniqueId> b = MakeSecretId();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(*a, *b);
  EXPECT_EQ(MakeNamedId("host:1"), MakeNamedId("host:1"));
  EXPECT_NE(MakeNamedId("host:1"), MakeNamedId("host:2"));
  EXPECT_TRUE(CheckUniqueId(*a).ok());
  EXPECT_FALSE(CheckUniqueId(UniqueId{.magic = 1}).ok());
}

TEST(UniqueId, NamesAreAddressesWithAPort) {
  for (const char* text : {"10.0.0.1:29500", "127.0.0.1:1", "host:65535", "node-1.rack_2.org:7",
                           "[::1]:29500", "[fd00::12]:1", "[fe80::1%eth0]:29500"}) {
    EXPECT_TRUE(CheckNamedId(text).ok()) << text;
  }
  for (const char* text : {"",          "host",       "10.0.0.1",     ":29500",      "host:",
                           "host:port", "host:0",     "host:65536",   "host:-1",     "host: 1",
                           "host:1 ",   "10.0.0:1",   "10.0.0.256:1", "1.2.3.4.5:1", "::1:29500",
                           "[::1]",     "[::1]29500", "[::1:29500",   "[host]:1",    "[10.0.0.1]:1",
                           "a b:1",     "a/b:1",      "tcp://a:1",    "a:1:2",       "a:1,b:2"}) {
    const Status status = CheckNamedId(text);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(std::string("NCCL_COMM_ID is '") + text + "'"),
              std::string::npos)
        << status.message();
  }
}

TEST(UniqueId, DigestsDifferAsIdsDo) {
  const UniqueId one = MakeNamedId("host:1");
  EXPECT_EQ(DigestOfId(one), DigestOfId(MakeNamedId("host:1")));
  EXPECT_NE(DigestOfId(one), DigestOfId(MakeNamedId("host:2")));
}

TEST(Messages, SurviveTheRoundTrip) {
  SplitRequest request;
  request.member = 9;
  request.color = -4;
  const std::vector<int32_t> numbers = {1, -2, 3};
  const std::vector<std::byte> bytes =
      Encode(SplitRequest::kType, request, std::as_bytes(std::span(numbers)));
  const Result<MessageHeader> header = DecodeHeader(bytes);
  ASSERT_TRUE(header.ok());
  const Result<SplitRequest> decoded = DecodeBody<SplitRequest>(*header, bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->member, 9u);
  EXPECT_EQ(decoded->color, -4);
  EXPECT_EQ(*DecodeNumbers(*header, bytes), numbers);
  EXPECT_FALSE(DecodeBody<JoinRequest>(*header, bytes).ok());
}

TEST(Messages, FailuresCarryCodeAndText) {
  const std::vector<std::byte> bytes = EncodeFailure(MessageType::kJoin, InvalidUsage("no"));
  const Result<MessageHeader> header = DecodeHeader(bytes);
  ASSERT_TRUE(header.ok());
  const Status status = DecodeFailure(*header, bytes);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_EQ(status.message(), "no");
}

TEST(Messages, BytesFromNowhereAreRefusedNotFollowed) {
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes(random() % 300);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    MessageHeader header;
    header.tail_bytes = random();
    if (i % 2 == 0 && bytes.size() >= sizeof header)
      std::memcpy(bytes.data(), &header, sizeof header);
    const Result<MessageHeader> decoded = DecodeHeader(bytes);
    if (!decoded.ok()) continue;
    EXPECT_LE(decoded->tail_bytes, bytes.size());
    static_cast<void>(DecodeBody<JoinRequest>(*decoded, bytes).ok());
    static_cast<void>(DecodeNumbers(*decoded, bytes).ok());
    static_cast<void>(DecodeFailure(*decoded, bytes).ok());
  }
}

TEST(ControlSocket, CarriesMessagesAndDescriptors) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  ControlSocket a{FileDescriptor(pair[0])};
  ControlSocket b{FileDescriptor(pair[1])};
  EXPECT_EQ(b.Receive(0).status().code(), Code::kInProgress);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const FileDescriptor read_end(pipe_ends[0]);
  {
    const FileDescriptor write_end(pipe_ends[1]);
    const int descriptors[] = {write_end.get()};
    ASSERT_TRUE(a.Send(Encode(CreateIdRequest::kType, CreateIdRequest{}), descriptors).ok());
  }
  Result<ControlMessage> message = b.Receive(1000);
  ASSERT_TRUE(message.ok());
  ASSERT_EQ(message->descriptors.size(), 1u);
  ASSERT_EQ(write(message->descriptors[0].get(), "x", 1), 1);
  char c = 0;
  EXPECT_EQ(read(read_end.get(), &c, 1), 1);
  EXPECT_FALSE(a.PeerGone());
  b.Close();
  EXPECT_TRUE(a.PeerGone());
  EXPECT_EQ(a.Receive(0).status().code(), Code::kRemoteError);
}

// As a daemon does that turns a process away: it says why, and closes without reading the hello.
TEST(ControlSocket, GivesTheLastWordsOfWhoHungUp) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  ControlSocket a{FileDescriptor(pair[0])};
  ControlSocket b{FileDescriptor(pair[1])};
  ASSERT_TRUE(a.Send(Encode(HelloRequest::kType, HelloRequest{}), {}).ok());
  ASSERT_TRUE(b.Send(Encode(CreateIdRequest::kType, CreateIdRequest{}), {}).ok());
  b.Close();
  const Result<ControlMessage> words = a.Receive(1000);
  ASSERT_TRUE(words.ok()) << words.status().ToString();
  EXPECT_EQ(DecodeHeader(words->bytes)->type, MessageType::kCreateId);
  EXPECT_EQ(a.Receive(1000).status().code(), Code::kRemoteError);
}

TEST(ControlSocket, ASecondListenerIsRefusedAndADeadOnesPlaceIsTaken) {
  const std::string path = "/tmp/harmonaize-ipc-test-" + std::to_string(getpid()) + ".sock";
  {
    Result<FileDescriptor> first = ListenAt(path, 0600);
    ASSERT_TRUE(first.ok()) << first.status().message();
    EXPECT_EQ(ListenAt(path, 0600).status().code(), Code::kInvalidUsage);
  }
  EXPECT_EQ(ControlSocket::Connect(path).status().code(), Code::kUnavailable);
  EXPECT_TRUE(ListenAt(path, 0600).ok());
  unlink(path.c_str());
}

}  // namespace
}  // namespace harmonaize
