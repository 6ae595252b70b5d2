// Which of a rail's connections a message takes: what sockets tell. The rest is in
// tests/unit/transport/connection_choice_test.cc.

#include "src/transport/link/channel_bundle.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.h"

namespace harmonaize::transport {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class ChannelBundles : public ::testing::Test, private Channel::Owner {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Poller>> poller = Poller::Create();
    ASSERT_TRUE(poller.ok());
    poller_ = std::move(*poller);
    bundle_ = std::make_unique<ChannelBundle>(static_cast<Channel::Owner*>(this));
    for (int i = 0; i < 3; ++i) AddConnection();
    ASSERT_TRUE(bundle_->Start().ok());
  }
  void TearDown() override { bundle_->Close(RemoteError("over")); }

  // The far end reads nothing but what Drain takes, and holds little.
  void AddConnection() {
    const FileDescriptor listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int little = 4096;
    setsockopt(listening.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    ASSERT_EQ(bind(listening.get(), any, length), 0);
    ASSERT_EQ(listen(listening.get(), 1), 0);
    ASSERT_EQ(getsockname(listening.get(), any, &length), 0);
    FileDescriptor near(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(near.get(), any, length), 0);
    far_.emplace_back(accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    ASSERT_TRUE(far_.back().valid());
    ASSERT_EQ(fcntl(near.get(), F_SETFL, O_NONBLOCK), 0);
    auto channel = std::make_unique<TcpChannel>(
        poller_.get(), &board_, &tenants_, bundle_->channel_owner(), 1, "rail", std::move(near));
    channels_.push_back(channel.get());
    bundle_->Add(std::move(channel));
  }

  void OnChannelBroken(Channel* channel, const std::string& /*reason*/) override {
    broken_.push_back(channel);
  }

  Request* Send(size_t bytes, bool first_connection = false) {
    Request* const send =
        board_.NewRequest(true, 1, {++operation_, 0, 0}, bytes_.data(), bytes, {});
    send->first_connection = first_connection;
    bundle_->Send(send);
    return send;
  }
  /// The number of the connection that a message goes by.
  size_t SentOn(size_t bytes, bool first_connection = false) {
    const Request* const send = Send(bytes, first_connection);
    for (size_t i = 0; i < channels_.size(); ++i) {
      if (send->channel == channels_[i]) return i;
    }
    return channels_.size();
  }

  size_t Owed(size_t connection) {
    return channels_[connection]->BacklogAt(MonotonicNanoseconds()).bytes;
  }
  /// Reads at the far end of a connection until nothing waits on it.
  bool Drain(size_t connection) {
    std::vector<std::byte> bytes(kMiB);
    const uint64_t deadline = MonotonicNanoseconds() + 20'000'000'000;
    while (MonotonicNanoseconds() < deadline) {
      const Backlog left = channels_[connection]->BacklogAt(MonotonicNanoseconds());
      if (left.bytes == 0 && left.queueing_ns == 0) return true;
      poller_->RunLater();
      poller_->Poll();
      while (recv(far_[connection].get(), bytes.data(), bytes.size(), 0) > 0) continue;
    }
    const Backlog left = channels_[connection]->BacklogAt(MonotonicNanoseconds());
    ADD_FAILURE() << left.bytes << " bytes and " << left.queueing_ns << " ns are left";
    return false;
  }

  std::unique_ptr<Poller> poller_;
  MessageBoard board_;
  TenantMix tenants_;
  std::unique_ptr<ChannelBundle> bundle_;
  std::vector<TcpChannel*> channels_;
  std::vector<FileDescriptor> far_;
  std::vector<Channel*> broken_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(4 * kMiB);
  uint64_t operation_ = 0;
};

TEST_F(ChannelBundles, TheFirstConnectionAtRestIsTaken) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(SentOn(65536), 0u);
    ASSERT_TRUE(Drain(0));
  }
}

TEST_F(ChannelBundles, WhatIsOwedIsWhatWasSentAndHasNotComeThrough) {
  Send(60000);
  Send(30000);
  // The far end holds some kilobytes.
  EXPECT_GT(Owed(0), 60000u);
  EXPECT_LT(Owed(0), 200000u);
  EXPECT_EQ(Owed(1), 0u);
  ASSERT_TRUE(Drain(0));
  EXPECT_EQ(Owed(0), 0u);
}

TEST_F(ChannelBundles, WhoAsksForTheFirstConnectionGetsIt) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(SentOn(65536, /*first_connection=*/true), 0u);
  EXPECT_EQ(SentOn(100), 0u);  // as tiny ones do
}

TEST_F(ChannelBundles, WhatWasGivenUpIsNotOwed) {
  Request* const send = Send(4 * kMiB);  // offered
  EXPECT_EQ(send->channel, channels_[0]);
  EXPECT_GE(Owed(0), 4 * kMiB);
  bundle_->Abort(send, InvalidUsage("not wanted"));
  ASSERT_TRUE(Drain(0));
  EXPECT_EQ(SentOn(65536), 0u);
}

TEST_F(ChannelBundles, WithOneConnectionTheRailIsLost) {
  far_[1].Reset();
  for (int i = 0; i < 1000 && broken_.empty(); ++i) poller_->Poll();
  EXPECT_EQ(broken_, std::vector<Channel*>{bundle_.get()});
  Request* const send = Send(4 * kMiB);
  bundle_->Close(RemoteError("lost"));
  EXPECT_EQ(board_.Find(send->slot()), nullptr);
  EXPECT_EQ(board_.RunCompletions(), 1);
}

}  // namespace
}  // namespace harmonaize::transport
