#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/multihost/network_operations.h"
#include "daemon/multihost/network_runner.h"
#include "daemon/plans/fabrics.h"
#include "daemon/sharing/start_gate.h"
#include "tests/unit/daemon/communicator/communicator_fixture.h"

namespace harmonaize::daemon {

/// Lets everything begin.
class OpenGate final : public StartGate {
 public:
  bool MayBegin(Communicator&) override { return true; }
  void NoteEnd(Communicator&) override {}
};

class NoRankObserver final : public RemoteRankObserver {
 public:
  void OnRankLeft(Communicator&, int) override {}
};

/// Keeps the messages that it hears.
class RecordingEvents final : public ClusterEvents {
 public:
  void OnMessage(transport::PeerId, const ClusterMessage& message) override {
    heard.push_back(message);
  }
  void OnPeerLost(transport::PeerId) override {}

  template <typename Message>
  int64_t Count() const {
    return std::count_if(heard.begin(), heard.end(), [](const ClusterMessage& message) {
      return message.As<Message>() != nullptr;
    });
  }
  std::vector<ClusterMessage> heard;
};

/// A communicator of two hosts, one of which is the test; of the other there is the port, and
/// nobody who answers.
class TwoHostsFixture : public CommunicatorFixture {
 protected:
  TwoHostsFixture() {
    Make(2, {0});
    ClusterConfig config;
    config.address = "127.0.0.1:0";
    config.allow_unauthenticated = true;
    // Both daemons are on this thread, so one is silent for as long as the other works.
    config.dead_after_seconds = 60;
    cluster_ = NewCluster(config, &events_);
    other_ = NewCluster(config, &other_events_);
  }
  ~TwoHostsFixture() override { communicator_.reset(); }

  std::unique_ptr<Cluster> NewCluster(const ClusterConfig& config, ClusterEvents* events) {
    Result<std::unique_ptr<Cluster>> made = Cluster::Create(config, events, loop_.get());
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(*made) : nullptr;
  }

  /// Rank 0 is here, rank 1 at a daemon with this address, which is this peer if it is known.
  void SpanTo(const std::string& address, std::optional<transport::PeerId> peer = std::nullopt,
              transport::PeerId home = kThisDaemon) {
    const Roster roster{.key = kKey,
                        .home = home,
                        .self = 0,
                        .host_of_rank = {0, 1},
                        .addresses = {cluster_->address(), address},
                        .fabric_hosts = {0, 1},
                        .peers = {kThisDaemon, peer},
                        .fabric = fabrics_.OneSwitch(2).digest};
    communicator_->Span(std::make_unique<NetworkRunner>(
        HostServices{Services(), cluster_.get(), &fabrics_, &network_, &gate_, &ranks_},
        communicator_.get(), roster));
  }
  /// Rank 1 is at the other daemon, to which there is a link.
  void SpanToOther() {
    LinkToOther();
    SpanTo(other_->address(), peer_);
  }
  void LinkToOther() {
    cluster_->Reach(other_->address(), [this](const Result<transport::PeerId>& reached) {
      ASSERT_TRUE(reached.ok()) << reached.status().message();
      peer_ = *reached;
    });
    RunUntil([this] { return peer_ != kThisDaemon && !other_->linked().empty(); });
  }
  /// Rank 0 posts operations that begin together.
  void PostTogether(int count, OperationDescriptor descriptor) {
    descriptor.member = members_[0]->index;
    descriptor.stream = descriptor.member;
    descriptor.position = ++posted_[0];
    descriptor.send = {0, regions_[0]};
    descriptor.receive = {kElements * sizeof(float), regions_[0]};
    for (int i = 0; i < count; ++i) {
      descriptor.flags = i + 1 == count ? kLastOfPosition : 0;
      descriptor.sequence = members_[0]->next_sequence;
      const Result<PostedOperation*> part = sessions_[0]->Admit(descriptor);
      ASSERT_TRUE(part.ok()) << part.status().message();
      communicator_->Post(*part);
      if ((*part)->stream->Arrive(*part)) ready_.Add(*tenant_, *part);
    }
    RunReady();
  }
  static OperationDescriptor Pair(Collective kind) {
    OperationDescriptor descriptor;
    descriptor.collective = kind;
    descriptor.root = 1;
    descriptor.count = 1;
    return descriptor;
  }
  static OperationDescriptor EmptyAllReduce() {
    OperationDescriptor descriptor;
    descriptor.collective = Collective::kAllReduce;
    return descriptor;
  }
  /// The communicator hears this from the other daemon.
  void Hear(const ClusterMessage& message) { HearFrom(peer_, message); }
  void HearFrom(transport::PeerId peer, const ClusterMessage& message) {
    communicator_->other_hosts()->OnMessage(peer, message);
  }
  void HearOffers(int count) {
    for (int i = 0; i < count; ++i) {
      Hear(OfferMessage{kKey, 1, 0, static_cast<uint64_t>(i), 1, DataType::kInt8, Status::Ok()});
    }
  }
  /// Expects that some of so many operations have ended, and that all have after a while.
  void ExpectPortionsOf(int64_t count, int64_t left_in_the_end) {
    EXPECT_LT(outstanding(0), count);
    EXPECT_GT(outstanding(0), left_in_the_end);
    loop_->RunPosted();
    EXPECT_GT(outstanding(0), left_in_the_end);
    Run();
    EXPECT_EQ(outstanding(0), left_in_the_end);
  }
  /// Takes all memory that the tenant may still make the daemon keep.
  void TakeAllMemory() {
    for (int64_t bytes = int64_t{1} << 50; bytes > 0; bytes /= 2) {
      for (Result<Holding> taken = tenant_->account->Take(Resource::kMemory, bytes); taken.ok();
           taken = tenant_->account->Take(Resource::kMemory, bytes)) {
        taken_.push_back(std::move(*taken));
      }
    }
  }
  /// Lets both daemons go on until `done` returns true, or for some seconds.
  void RunUntil(const std::function<bool()>& done) {
    for (int i = 0; i < 20'000 && !done(); ++i) {
      Run();
      cluster_->Progress(true);
      other_->Progress(true);
      usleep(100);
    }
    Run();
  }
  void RunUntilEnded() {
    RunUntil([this] { return communicator_->state() != Communicator::State::kReady; });
  }

  static constexpr uint64_t kKey = 77;
  /// Daemons to which there is no link.
  static constexpr transport::PeerId kStranger = 1000;
  static constexpr transport::PeerId kThere = 1001;

  RecordingEvents events_;
  RecordingEvents other_events_;
  transport::PeerId peer_ = kThisDaemon;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Cluster> other_;
  Fabrics fabrics_;
  NetworkOperations network_{&sliced_};
  OpenGate gate_;
  NoRankObserver ranks_;
  std::vector<Holding> taken_;
};

}  // namespace harmonaize::daemon
