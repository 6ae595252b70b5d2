#include "daemon/tenant/connection.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <thread>

namespace harmonaize::daemon {
namespace {

/// Tests what the engine says over a connection whose reception is this test's thread.
class ConnectionTest : public ::testing::Test {
 protected:
  ConnectionTest() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    tenant_ = ControlSocket(FileDescriptor(pair[0]));
    connection_ =
        std::make_unique<Connection>(ControlSocket(FileDescriptor(pair[1])), Connection::Peer{},
                                     FileDescriptor(), nullptr, Holding());
    connection_->SetOnOutgoing([this] { ++told_; });
  }

  static void OnEngine(const std::function<void()>& call) { std::thread(call).join(); }
  bool HasAnswer() { return tenant_.Receive(0).status().code() != Code::kInProgress; }

  ControlSocket tenant_;
  std::unique_ptr<Connection> connection_;
  int told_ = 0;
};

TEST_F(ConnectionTest, TheReceptionSendsWhatTheEngineSays) {
  OnEngine([&] { connection_->ReplyFailure(MessageType::kHello, RemoteError("no")); });
  EXPECT_EQ(told_, 1);
  EXPECT_FALSE(HasAnswer());
  connection_->SendOutgoing();
  EXPECT_TRUE(HasAnswer());
  connection_->SendOutgoing();
  EXPECT_FALSE(HasAnswer()) << "once";
}

TEST_F(ConnectionTest, TheReceptionsOwnAnswersComeAfterThose) {
  OnEngine([&] { connection_->Tell(MessageType::kProbe, ProbeReply{}); });
  connection_->Reply(MessageType::kDocument, DocumentReply{});
  for (const MessageType type : {MessageType::kProbe, MessageType::kDocument}) {
    const Result<ControlMessage> answer = tenant_.Receive(0);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(DecodeHeader(answer->bytes)->type, type);
  }
}

TEST_F(ConnectionTest, NobodyIsToldWhileARequestIsWithTheEngine) {
  OnEngine([&] {
    connection_->BeginRequest();
    connection_->Reply(MessageType::kLeave, EmptyReply{});
    EXPECT_TRUE(connection_->EndRequest());
  });
  EXPECT_EQ(told_, 0);
  connection_->SendOutgoing();
  EXPECT_TRUE(HasAnswer());
}

TEST_F(ConnectionTest, DescriptorsMayBeClosedMeanwhile) {
  OnEngine([&] {
    const FileDescriptor event(eventfd(7, EFD_CLOEXEC));
    const int descriptors[] = {event.get()};
    connection_->Reply(MessageType::kHello, HelloReply{}, descriptors);
  });
  connection_->SendOutgoing();
  const Result<ControlMessage> answer = tenant_.Receive(0);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  ASSERT_EQ(answer->descriptors.size(), 1u);
  uint64_t value = 0;
  EXPECT_EQ(read(answer->descriptors[0].get(), &value, sizeof value), 8);
  EXPECT_EQ(value, 7u);
}

TEST_F(ConnectionTest, IsCutAfterTheLastWord) {
  OnEngine([&] {
    connection_->ReplyFailure(MessageType::kHello, RemoteError("no"));
    connection_->CutSoon();
  });
  EXPECT_FALSE(tenant_.PeerGone());
  connection_->SendOutgoing();
  EXPECT_TRUE(tenant_.Receive(0).ok());
  EXPECT_TRUE(tenant_.PeerGone());
}

}  // namespace
}  // namespace harmonaize::daemon
