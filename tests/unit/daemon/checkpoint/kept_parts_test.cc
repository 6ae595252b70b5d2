#include "daemon/checkpoint/kept_parts.h"

#include <gtest/gtest.h>

#include <set>

namespace harmonaize::daemon {
namespace {

const JobTable::Key kJob = {7, JobIdentity{{1}}};
const JobTable::Key kOtherJob = {7, JobIdentity{{2}}};

/// Parts of which the test says which ranks and jobs are here.
class KeptPartsTest : public ::testing::Test {
 protected:
  uint32_t Add(uint64_t communicator, int rank, uint64_t round, PartState state,
               const JobTable::Key& job = kJob) {
    KeptPart part;
    part.job = job;
    part.session = 40 + static_cast<uint32_t>(rank);
    part.communicator = communicator;
    part.rank = rank;
    part.state = state;
    part.round = round;
    part.save = communicator * 1000 + round;
    return parts_.Add(part);
  }
  void LookAfter(double now_seconds = 1000) {
    parts_.LookAfter(
        {.now_seconds = now_seconds,
         .keep_seconds = 60,
         .has_rank = [this](const KeptPart& part) { return here_.contains(part.communicator); },
         .has_job = [this](const JobTable::Key& job) { return jobs_.contains(job); }});
  }
  bool Has(uint32_t buffer, int rank = 0) {
    return parts_.Find(buffer, 40 + static_cast<uint32_t>(rank)) != nullptr;
  }

  KeptParts parts_;
  std::set<uint64_t> here_ = {1};
  std::set<JobTable::Key> jobs_ = {kJob};
};

TEST_F(KeptPartsTest, ABufferIsItsSessionsAlone) {
  const uint32_t buffer = Add(1, 0, 1, PartState::kCommitted);
  EXPECT_NE(parts_.Find(buffer, 40), nullptr);
  EXPECT_EQ(parts_.Find(buffer, 41), nullptr);
  EXPECT_EQ(parts_.Find(buffer + 1, 40), nullptr);
}

TEST_F(KeptPartsTest, ABufferThatWasGivenBackIsToldFromOneThatNeverWas) {
  const uint32_t buffer = Add(1, 0, 1, PartState::kCommitted);
  EXPECT_FALSE(parts_.WasErased(0) || parts_.WasErased(buffer) || parts_.WasErased(buffer + 1));
  parts_.Erase(buffer);
  EXPECT_TRUE(parts_.WasErased(buffer));
  EXPECT_FALSE(parts_.WasErased(buffer + 1));
}

TEST_F(KeptPartsTest, OfARankThatHasGoneTheNewestCompletePartStays) {
  const uint32_t older = Add(1, 0, 1, PartState::kComplete);
  const uint32_t newer = Add(1, 0, 2, PartState::kComplete);
  const uint32_t unused = Add(1, 0, 0, PartState::kNothing);
  LookAfter();
  EXPECT_TRUE(Has(older) && Has(newer) && Has(unused)) << "its rank is there";
  here_.clear();
  LookAfter();
  EXPECT_TRUE(Has(newer));
  EXPECT_FALSE(Has(older) || Has(unused));
}

TEST_F(KeptPartsTest, APartThatMayBeIncompleteLeavesTheOneBefore) {
  const uint32_t complete = Add(1, 0, 2, PartState::kComplete);
  const uint32_t committed = Add(1, 0, 3, PartState::kCommitted);
  here_.clear();
  LookAfter();
  EXPECT_TRUE(Has(complete) && Has(committed));
}

TEST_F(KeptPartsTest, ALaterRunTakesTheirPlaceOnceItIsComplete) {
  const uint32_t old = Add(1, 0, 5, PartState::kComplete);
  const uint32_t others = Add(1, 0, 5, PartState::kComplete, kOtherJob);
  here_ = {2};
  LookAfter();
  const uint32_t fresh = Add(2, 0, 1, PartState::kCommitted);
  LookAfter();
  parts_.DropEarlier(kJob, 2);
  EXPECT_TRUE(Has(old)) << "the new one is not complete";
  parts_.Complete(kJob, 2, 1);
  EXPECT_TRUE(Has(old)) << "no other host has it yet";
  parts_.DropEarlier(kJob, 2);
  EXPECT_FALSE(Has(old));
  EXPECT_TRUE(Has(fresh));
  EXPECT_TRUE(Has(others)) << "it is another job's";
}

TEST_F(KeptPartsTest, ACompleteRoundElsewhereTakesNothingAway) {
  const uint32_t old = Add(1, 0, 5, PartState::kComplete);
  here_ = {2};
  LookAfter();
  // No rank of this communicator has a part here.
  parts_.Complete(kJob, 2, 1);
  parts_.DropEarlier(kJob, 2);
  EXPECT_TRUE(Has(old));
}

TEST_F(KeptPartsTest, TellsWhatACommunicatorsRanksHaveLent) {
  EXPECT_EQ(parts_.BytesLent(kJob, 1), 0U);
  for (const uint64_t communicator : {1, 1, 2}) {
    KeptPart part;
    part.job = kJob;
    part.communicator = communicator;
    part.buffer_bytes = 100;
    parts_.Add(part);
  }
  EXPECT_EQ(parts_.BytesLent(kJob, 1), 200U);
}

TEST_F(KeptPartsTest, AJobThatEndsBeforeTheFirstLookIsKeptAsLong) {
  const uint32_t buffer = Add(1, 0, 1, PartState::kComplete);
  here_.clear();
  jobs_.clear();
  LookAfter(2000);
  LookAfter(2059);
  EXPECT_TRUE(Has(buffer));
  LookAfter(2061);
  EXPECT_FALSE(Has(buffer));
}

TEST_F(KeptPartsTest, TimeRunsFromTheJobsEnd) {
  const uint32_t buffer = Add(1, 0, 1, PartState::kComplete);
  LookAfter(1000);
  here_.clear();
  LookAfter(2000);
  EXPECT_TRUE(Has(buffer)) << "the job has other ranks here";
  jobs_.clear();
  LookAfter(2059);
  EXPECT_TRUE(Has(buffer));
  LookAfter(2061);
  EXPECT_FALSE(Has(buffer));
  EXPECT_TRUE(parts_.empty());
}

TEST_F(KeptPartsTest, APartIsFoundByItsSaveAndRank) {
  Add(1, 0, 1, PartState::kNothing);
  EXPECT_EQ(parts_.FindPart(kJob, 1001, 0), nullptr) << "nothing lies in it";
  const uint32_t buffer = Add(1, 1, 1, PartState::kCommitted);
  EXPECT_EQ(parts_.FindPart(kJob, 1001, 1), parts_.Find(buffer, 41));
  EXPECT_EQ(parts_.FindPart(kOtherJob, 1001, 1), nullptr);
}

}  // namespace
}  // namespace harmonaize::daemon
