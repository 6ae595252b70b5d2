// The acceptor's side of a stream's move, beside an initiator that says what the test wants.

#include "src/transport/stream/stream_moves.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/transport/cluster_key.h"

namespace harmonaize::transport {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kGiveUpNs = 10 * kSecondNs;
constexpr uint64_t kExpectedHere = 111;
constexpr uint64_t kExpectedThere = 222;

/// As it lies on the wire, see StreamMoves::Message.
struct Message {
  uint32_t word = 0;
  uint32_t number = 0;
  uint64_t value = 0;
};
constexpr uint32_t kMove = 0x4d4f5645;
constexpr uint32_t kFrozen = kMove + 1;
constexpr uint32_t kGoOn = kMove + 2;

class Stream final : public StreamUser {
 public:
  bool Stalled() override { return false; }
  void Poke() override {}
  Status Freeze() override {
    frozen = true;
    return Status::Ok();
  }
  uint64_t Drain() override { return kExpectedHere; }
  Status Continue(FileDescriptor socket, uint64_t expected) override {
    EXPECT_TRUE(frozen);
    EXPECT_EQ(expected, kExpectedThere);
    frozen = false;
    went_on.push_back(std::move(socket));
    return Status::Ok();
  }

  bool frozen = false;
  std::vector<FileDescriptor> went_on;
};

class StreamMovesTest : public ::testing::Test,
                        private StreamMoves::Owner,
                        private Reception::Owner {
 protected:
  StreamMovesTest() {
    Result<std::unique_ptr<Poller>> poller = Poller::Create();
    EXPECT_TRUE(poller.ok());
    poller_ = std::move(*poller);
    reception_ = std::make_unique<Reception>(poller_.get(), static_cast<Reception::Owner*>(this),
                                             nullptr, InstanceId{}, ReceptionLimits{});
    moves_ = std::make_unique<StreamMoves>(
        poller_.get(), reception_.get(), static_cast<StreamMoves::Owner*>(this),
        /*initiator=*/false, Greeting{}, std::vector<StreamMoves::Way>(), kGiveUpNs);
    moves_->Add(&stream_, {}, 0, "the stream", /*astray=*/false);
  }

  /// A connection that has been proved; the initiator's end.
  FileDescriptor Connect() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    ProvedConnection proved;
    proved.socket = FileDescriptor(ends[0]);
    moves_->OnProved(std::move(proved));
    return FileDescriptor(ends[1]);
  }
  void Say(const FileDescriptor& end, const Message& message) {
    ASSERT_EQ(send(end.get(), &message, sizeof message, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof message));
    poller_->Poll();
  }
  static bool Closed(const FileDescriptor& end) {
    std::byte byte{};
    return recv(end.get(), &byte, 1, MSG_PEEK) == 0;
  }
  static void ExpectFrozen(const FileDescriptor& end, uint32_t number) {
    Message answer;
    ASSERT_EQ(recv(end.get(), &answer, sizeof answer, 0), static_cast<ssize_t>(sizeof answer));
    EXPECT_EQ(answer.word, kFrozen);
    EXPECT_EQ(answer.number, number);
    EXPECT_EQ(answer.value, kExpectedHere);
  }
  void TickAfter(double seconds) {
    moves_->Tick(MonotonicNanoseconds() +
                 static_cast<uint64_t>(seconds * static_cast<double>(kSecondNs)));
  }

  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Reception> reception_;
  Stream stream_;
  std::unique_ptr<StreamMoves> moves_;
  std::string failed_;

 private:
  uint64_t NewCookie(StreamMoves*) override { return 1; }
  void DropCookie(uint64_t) override {}
  void AskToMove(StreamMoves*, const StreamMoves::StreamName&, uint32_t) override {}
  void OnMoveFailed(StreamMoves*, const std::string& reason) override { failed_ = reason; }
  void OnProved(ProvedConnection) override {}
  void OnConnectFailed(uint64_t, const Status&, bool) override {}
};

TEST_F(StreamMovesTest, AStreamGoesOnOverAnotherConnection) {
  const FileDescriptor end = Connect();
  Say(end, {kMove, 1, 0});
  EXPECT_TRUE(stream_.frozen);
  ExpectFrozen(end, 1);
  Say(end, {kGoOn, 1, kExpectedThere});
  EXPECT_EQ(stream_.went_on.size(), 1u);
  EXPECT_TRUE(moves_->Astray({}));
}

TEST_F(StreamMovesTest, WhoHasAnsweredWaitsForTheLastWord) {
  const FileDescriptor end = Connect();
  Say(end, {kMove, 1, 1});
  TickAfter(9);  // the initiator has gone on; its word of that takes long
  EXPECT_EQ(failed_, "");
  ExpectFrozen(end, 1);
  EXPECT_FALSE(Closed(end));
  Say(end, {kGoOn, 1, kExpectedThere});
  EXPECT_EQ(stream_.went_on.size(), 1u);
  EXPECT_FALSE(moves_->Astray({}));
}

TEST_F(StreamMovesTest, TheLinkIsGivenUpWhenTheLastWordNeverComes) {
  const FileDescriptor end = Connect();
  Say(end, {kMove, 1, 1});
  TickAfter(11);
  EXPECT_NE(failed_.find("the stream carries nothing"), std::string::npos) << failed_;
}

TEST_F(StreamMovesTest, ConnectionsOverWhichNothingIsSaidAreDropped) {
  const FileDescriptor end = Connect();
  TickAfter(1);
  EXPECT_FALSE(Closed(end));
  TickAfter(3);
  EXPECT_TRUE(Closed(end));
}

TEST_F(StreamMovesTest, ANewerAttemptTakesThePlaceOfAnOlderOne) {
  const FileDescriptor first = Connect();
  Say(first, {kMove, 1, 0});
  const FileDescriptor second = Connect();
  Say(second, {kMove, 2, 0});
  ExpectFrozen(second, 2);
  ExpectFrozen(first, 1);
  EXPECT_TRUE(Closed(first));
  Say(second, {kGoOn, 2, kExpectedThere});
  EXPECT_EQ(stream_.went_on.size(), 1u);
}

TEST_F(StreamMovesTest, AnOlderAttemptComesTooLate) {
  const FileDescriptor first = Connect();
  const FileDescriptor second = Connect();
  Say(second, {kMove, 2, 0});
  Say(first, {kMove, 1, 0});
  EXPECT_TRUE(Closed(first));
  ExpectFrozen(second, 2);
  EXPECT_FALSE(Closed(second));
}

}  // namespace
}  // namespace harmonaize::transport
