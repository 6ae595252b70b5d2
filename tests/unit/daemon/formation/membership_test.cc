// Tests of which ranks belong to which communicator.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/unit/daemon/formation/engine_fixture.h"

namespace harmonaize::daemon {
namespace {

class MembershipTest : public EngineFixture {
 protected:
  MembershipTest() : EngineFixture({}, 0.001) {}

  int64_t ids() { return held(Resource::kUniqueIds); }
  bool Join(const Process& process, const UniqueId& id, int ranks, int rank) {
    return membership().Join(*process.session, id, ranks, rank, false, "").ok();
  }
};

TEST_F(MembershipTest, AnIdGoesWithTheProcessThatAskedForIt) {
  const Process asker = Enter();
  IdFor(asker);
  EXPECT_EQ(ids(), 1);
  End(asker);
  EXPECT_EQ(ids(), 0);
}

TEST_F(MembershipTest, AnIdServesOnce) {
  const Process asker = Enter();
  const UniqueId id = IdFor(asker);
  EXPECT_TRUE(Join(asker, id, 1, 0));
  EXPECT_EQ(ids(), 0);
  EXPECT_FALSE(Join(asker, id, 1, 0));
}

TEST_F(MembershipTest, AnIdThatRanksWaitWithOutlivesItsAskerAndGoesWithThem) {
  const Process asker = Enter();
  const Process waiting = Enter();
  const Process other = Enter();
  const UniqueId id = IdFor(asker);
  EXPECT_TRUE(Join(waiting, id, 3, 1));
  End(asker);
  EXPECT_TRUE(Join(other, id, 3, 2));
  EXPECT_EQ(ids(), 1);
  End(waiting);
  EXPECT_EQ(ids(), 0);
}

// It is remembered for ranks that come later, and costs the tenant an id meanwhile.
TEST_F(MembershipTest, ADisagreementIsForgottenThoughNobodyWaits) {
  const UniqueId name = MakeNamedId("meeting");
  Join(Enter(), name, 2, 0);
  Join(Enter(), name, 3, 1);
  EXPECT_EQ(ids(), 1);
  engine_->Start();
  for (int tries = 0; tries < 10'000 && ids() > 0; ++tries) usleep(1000);
  EXPECT_EQ(ids(), 0);
}

/// Keeps what it hears, as text.
class Recorder final : public CommunicatorObserver {
 public:
  void OnFormed(const Communicator& communicator, int hosts) override {
    heard.push_back(fmt::format("formed: {} ranks on {}", communicator.ranks(), hosts));
  }
  void OnBroken(const Communicator&, const Status& why) override {
    heard.push_back("broken: " + why.message());
  }
  void OnEnded(const Communicator& communicator) override {
    heard.push_back(fmt::format("ended: {} operations", communicator.operations()));
  }

  std::vector<std::string> heard;
};

TEST_F(MembershipTest, ObserversHearWhatBecomesOfACommunicator) {
  Recorder first;
  Recorder second;
  engine_->observers().Add(&first);
  engine_->observers().Add(&second);
  const Process stays = Enter();
  const Process goes = Enter();
  const UniqueId name = MakeNamedId("heard of");
  EXPECT_TRUE(Join(stays, name, 2, 0));
  EXPECT_TRUE(first.heard.empty());
  EXPECT_TRUE(Join(goes, name, 2, 1));
  engine_->session_keeper().LoseSession(goes.session->id(), "died", SessionEnd::kHungUp);
  membership().Sweep();
  EXPECT_EQ(first.heard, (std::vector<std::string>{"formed: 2 ranks on 1", "broken: rank 1 died"}));
  engine_->session_keeper().LoseSession(stays.session->id(), "died", SessionEnd::kHungUp);
  membership().Sweep();
  ASSERT_EQ(first.heard.size(), 3u);
  EXPECT_EQ(first.heard.back(), "ended: 0 operations");
  EXPECT_EQ(second.heard, first.heard);
}

}  // namespace
}  // namespace harmonaize::daemon
