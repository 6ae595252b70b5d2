#include "daemon/job_events/job_relay.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/messages/event.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/job_events/job_attachments.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/jobs/job_table.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {
namespace {

/// The last version between daemons without offers.
constexpr uint32_t kWithoutOffers = 6;

/// A daemon's end of the cluster, which notes what it hears.
class NotingDaemon final : private ClusterEvents {
 public:
  NotingDaemon(EventLoop* loop, std::optional<VersionRange> versions) {
    ClusterConfig config;
    config.address = "127.0.0.1:0";
    config.allow_unauthenticated = true;
    // All daemons are on this thread, so one is silent for as long as the others work.
    config.dead_after_seconds = 60;
    config.versions = versions;
    Result<std::unique_ptr<Cluster>> made = Cluster::Create(config, this, loop);
    EXPECT_TRUE(made.ok()) << made.status().message();
    cluster_ = std::move(*made);
  }

  Cluster& cluster() { return *cluster_; }
  const std::vector<MessageKind>& heard() const { return heard_; }

 private:
  void OnMessage(transport::PeerId, const ClusterMessage& message) override {
    heard_.push_back(message.kind());
  }
  void OnPeerLost(transport::PeerId) override {}

  std::vector<MessageKind> heard_;
  std::unique_ptr<Cluster> cluster_;
};

/// A job that two other hosts have agents of: one of this release, and one of an earlier one.
class JobRelayTest : public ::testing::Test {
 protected:
  JobRelayTest() {
    attachments_.Add(&job_, 1, Link(&of_this_release_));
    attachments_.Add(&job_, 2, Link(&of_earlier_release_));
  }

  transport::PeerId Link(NotingDaemon* other) {
    std::optional<transport::PeerId> peer;
    own_.cluster().Reach(other->cluster().address(), [&](const Result<transport::PeerId>& reached) {
      EXPECT_TRUE(reached.ok()) << reached.status().message();
      if (reached.ok()) peer = *reached;
    });
    RunUntil([&] { return peer.has_value() && !other->cluster().linked().empty(); });
    return peer.value_or(0);
  }
  /// Lets all daemons go on until `done` returns true, or for some seconds.
  void RunUntil(const std::function<bool()>& done) {
    for (int i = 0; i < 20'000 && !done(); ++i) {
      loop_->RunPosted();
      for (NotingDaemon* const one : {&own_, &of_this_release_, &of_earlier_release_}) {
        one->cluster().Progress(true);
      }
      usleep(100);
    }
    EXPECT_TRUE(done());
  }

  static std::unique_ptr<EventLoop> MakeLoop() {
    Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
    EXPECT_TRUE(loop.ok()) << loop.status().message();
    return std::move(*loop);
  }

  const std::unique_ptr<EventLoop> loop_ = MakeLoop();
  NotingDaemon own_{loop_.get(), std::nullopt};
  NotingDaemon of_this_release_{loop_.get(), std::nullopt};
  NotingDaemon of_earlier_release_{loop_.get(), VersionRange{kWithoutOffers, kWithoutOffers}};
  Tenant tenant_{{1000, 1000, 1000, "uid 1000"}, nullptr};
  Job job_{.id = JobIdentity{.bytes = {1}}, .tenant = &tenant_};
  CommunicatorRegistry communicators_;
  JobCommunicators by_job_;
  JobAttachments attachments_;
  const JobRelay relay_{{.cluster = &own_.cluster(),
                         .communicators = &communicators_,
                         .by_job = &by_job_,
                         .attachments = &attachments_}};
};

TEST_F(JobRelayTest, NothingIsOwedToADaemonWhoseReleaseDoesNotKnowTheMessage) {
  EXPECT_TRUE(relay_.Spread(job_, JobOfferMessage{.unique = 1}, {}));
  EXPECT_TRUE(relay_.Spread(job_, OfferAnswerMessage{.unique = 1, .sending = 2}, {}));
  EXPECT_TRUE(relay_.Spread(job_, AskRequirementsMessage{}, {}));
  RunUntil(
      [&] { return of_this_release_.heard().size() == 3 && !of_earlier_release_.heard().empty(); });
  EXPECT_EQ(of_this_release_.heard().at(0), MessageKind::kJobOffer);
  EXPECT_EQ(of_this_release_.heard().at(1), MessageKind::kOfferAnswer);
  EXPECT_EQ(of_earlier_release_.heard(), std::vector{MessageKind::kAskRequirements});
}

TEST_F(JobRelayTest, WhatADaemonDoesNotTakeNowIsOwedToIt) {
  const JobOfferMessage large{.unique = 1, .offer = std::vector<uint8_t>(10'000, 7)};
  bool taken = true;
  for (int i = 0; i < 10'000 && taken; ++i) taken = relay_.Spread(job_, large, {});
  EXPECT_FALSE(taken);
}

}  // namespace
}  // namespace harmonaize::daemon
