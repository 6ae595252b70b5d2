#include "daemon/tenant/session.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/unit/daemon/communicator/communicator_fixture.h"

namespace harmonaize::daemon {
namespace {

class SessionTest : public CommunicatorFixture {
 protected:
  SessionTest() {
    Make(2, {0, 1});
    sessions_[0]->set_on_region_gone([this](const Member& member, uint32_t region) {
      gone_.emplace_back(member.index, region);
    });
  }
  /// One more rank of the first process.
  Member* NewMember() {
    Member* const member = sessions_[0]->AddMember();
    member->communicator = communicator_.get();
    Result<Holding> memory = tenant_->account->Take(Resource::kMemory, 1);
    EXPECT_TRUE(memory.ok());
    member->memory = std::move(*memory);
    return member;
  }

  std::vector<std::pair<uint32_t, uint32_t>> gone_;  // members and regions
};

TEST_F(SessionTest, RanksThatOfferARegionHearThatItIsGone) {
  Member* const offers = NewMember();
  Member* const leaves = NewMember();
  NewMember();
  const uint32_t region = regions_[0];
  for (Member* member : {offers, leaves, offers}) {
    EXPECT_TRUE(sessions_[0]->OfferRegion(member, region).ok());
  }
  EXPECT_TRUE(offers->Offers(region));
  EXPECT_FALSE(sessions_[0]->OfferRegion(offers, region + 1).ok());
  const uint32_t index = leaves->index;
  sessions_[0]->RemoveMember(leaves);
  Member* const newcomer = NewMember();
  EXPECT_EQ(newcomer->index, index);
  EXPECT_TRUE(sessions_[0]->GiveUpRegion(region).ok());
  EXPECT_EQ(gone_, (std::vector<std::pair<uint32_t, uint32_t>>{{offers->index, region}}));
  EXPECT_FALSE(offers->Offers(region));
  EXPECT_EQ(sessions_[0]->FindRegion(region), nullptr);
}

TEST_F(SessionTest, ThreadsWaitAsAllOfTheirRanksBear) {
  Session& session = *sessions_[0];
  Member* const first = members_[0];
  const auto told = [&] { return LookingOf(*first->header); };
  EXPECT_EQ(told(), Looking::kAsItPays);
  session.SetLooking(first, Looking::kNever);
  EXPECT_EQ(told(), Looking::kNever);
  Member* const second = NewMember();
  EXPECT_EQ(told(), Looking::kAsItPays) << "the second one has said nothing yet";
  session.SetLooking(second, Looking::kForLong);
  EXPECT_EQ(told(), Looking::kForLong);
  session.SetLooking(second, Looking::kAsItPays);
  EXPECT_EQ(told(), Looking::kAsItPays) << "the second one minds that threads sleep at once";
  session.SetLooking(second, Looking::kForLong);
  session.RemoveMember(second);
  EXPECT_EQ(told(), Looking::kNever);
}

TEST_F(SessionTest, ALeavingRankIsIdleOnceItsLastPartIsCompleted) {
  int calls = 0;
  PostAllReduce(0);
  PostAllReduce(0);
  members_[0]->on_idle = [&] { ++calls; };
  communicator_->Break(RemoteError("broken"));
  Run();
  EXPECT_EQ(outstanding(0), 0);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(members_[0]->on_idle, nullptr);
}

}  // namespace
}  // namespace harmonaize::daemon
