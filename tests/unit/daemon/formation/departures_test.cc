#include "daemon/formation/departures.h"

#include <gtest/gtest.h>

#include "daemon/communicator/communicator_registry.h"
#include "tests/unit/daemon/communicator/communicator_fixture.h"

namespace harmonaize::daemon {
namespace {

class DeparturesTest : public CommunicatorFixture {
 protected:
  DeparturesTest() { Make(2, {0, 1}); }

  void Leave(int rank) {
    const auto place = static_cast<size_t>(rank);
    departures_.Add(*sessions_[place], members_[place], [this] { ++done_; });
  }
  int RanksOf(int rank) const { return sessions_[static_cast<size_t>(rank)]->ranks(); }

  CommunicatorRegistry registry_;
  Departures departures_{registry_, loop_.get()};
  int done_ = 0;
};

TEST_F(DeparturesTest, ARankGoesWhenNothingOfItIsInFlight) {
  PostAllReduce(0);
  Leave(0);
  departures_.Sweep();
  departures_.Sweep();
  EXPECT_EQ(done_, 1);  // nothing is executed
  EXPECT_EQ(RanksOf(0), 1);
  EXPECT_EQ(communicator_->departing, 1);
  communicator_->may_have_ended = true;  // the registry does not know it
  communicator_->Break(RemoteError("broken"));
  departures_.Sweep();
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(RanksOf(0), 0);
  EXPECT_EQ(communicator_->departing, 0);
}

TEST_F(DeparturesTest, BuffersAreInUseWhileSomethingIsExecuted) {
  PostAllReduce(0);
  PostAllReduce(1);
  ASSERT_TRUE(communicator_->executing());
  Leave(0);
  Leave(1);
  departures_.Sweep();
  EXPECT_EQ(done_, 0);
  communicator_->may_have_ended = true;
  Run();
  departures_.Sweep();
  EXPECT_EQ(done_, 2);
  EXPECT_EQ(RanksOf(0), 0);
  EXPECT_EQ(RanksOf(1), 0);
}

TEST_F(DeparturesTest, ManyRanksGoInPortions) {
  constexpr int kMany = 1000;
  for (int i = 0; i < kMany; ++i) {
    departures_.Add(*sessions_[0], sessions_[0]->AddMember(), [this] { ++done_; });
  }
  departures_.Sweep();
  EXPECT_GT(done_, 0);
  EXPECT_LT(done_, kMany);
  // The engine comes again.
  while (loop_->HasPosted()) {
    loop_->RunPosted();
    departures_.Sweep();
  }
  EXPECT_EQ(done_, kMany);
  EXPECT_EQ(RanksOf(0), 1);
}

}  // namespace
}  // namespace harmonaize::daemon
