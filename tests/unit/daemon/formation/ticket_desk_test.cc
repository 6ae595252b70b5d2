#include "daemon/formation/ticket_desk.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/identity/tenant_identity.h"

namespace harmonaize::daemon {
namespace {

constexpr uint64_t kNow = 1'000'000;
constexpr uint64_t kLater = 2'000'000;
constexpr uint64_t kParent = 7;

ResourceLimits SmallLimits() {
  ResourceLimits limits{};
  for (ResourceLimit& limit : limits) limit = {1 << 20, 1 << 22};
  limits[static_cast<size_t>(Resource::kTickets)] = {70, 1 << 20};
  limits[static_cast<size_t>(Resource::kNewcomers)] = {3, 1 << 20};
  return limits;
}

class TicketDeskTest : public ::testing::Test {
 protected:
  static TicketDigest Digest(uint8_t number) {
    TicketDigest digest{};
    digest.fill(number);
    return digest;
  }
  static JobIdentity JobId(uint8_t number) {
    JobIdentity id;
    id.bytes.fill(number);
    return id;
  }
  static NewcomerKey Key(uint64_t call) { return {1, call}; }

  Status Add(uint8_t number, int uses = 1, uint64_t expires_ns = kLater) {
    return desk_.Add({.job = job_,
                      .owner = &owner_,
                      .made_here = true,
                      .digest = Digest(number),
                      .uses = uses,
                      .expires_ns = expires_ns,
                      .view = {.id = std::to_string(number)}},
                     kNow);
  }
  Status Come(uint64_t call, uint8_t number, uint64_t now_ns = kNow) {
    return desk_.Come(Key(call), Digest(number), asker_, now_ns);
  }
  int Waiting() { return desk_.Waiting(job_, kNow); }
  int64_t held(Resource resource) const { return owner_.account->held(resource); }
  bool IsRefused(uint64_t call) const {
    return told_.contains(Key(call)) && !told_.at(Key(call)).ok();
  }

  const std::shared_ptr<Accounts> accounts_ = std::make_shared<Accounts>(SmallLimits());
  Tenant owner_{{1000, 1000, 1000, "uid 1000"}, accounts_->Of(1000, "uid 1000")};
  Tenant container_{{1001, 1000, 1000, "uid 1000 in a"}, accounts_->Of(1001, "uid 1000 in a")};
  Tenant stranger_{{2000, 2000, 2000, "uid 2000"}, accounts_->Of(2000, "uid 2000")};
  const TicketDesk::JobKey job_{1000, JobId(5)};
  const TicketDesk::Asker asker_{1000, &owner_, JobId(5)};
  WaitingCount waiting_;
  std::map<NewcomerKey, Result<JobPlace>> told_;
  TicketDesk desk_{waiting_, [this](const NewcomerKey& key, const Result<JobPlace>& place) {
                     told_.insert_or_assign(key, place);
                   }};
};

TEST_F(TicketDeskTest, AUseIsSpentOnceItsNewcomerIsARank) {
  ASSERT_TRUE(Add(1, 2).ok());
  EXPECT_TRUE(Come(1, 1).ok());
  EXPECT_TRUE(Come(2, 1).ok());
  EXPECT_EQ(Come(3, 1).code(), Code::kInvalidUsage) << "both uses are held";
  EXPECT_EQ(Waiting(), 2);
  EXPECT_TRUE(waiting_.any());
  EXPECT_EQ(desk_.List(job_, kNow).front().uses, 0);
  desk_.Admit(kParent, job_, UniqueId(), 4, 2, kLater);
  EXPECT_EQ(told_.at(Key(1))->rank, 4);
  EXPECT_EQ(told_.at(Key(2))->rank, 5);
  EXPECT_EQ(told_.at(Key(2))->ranks, 6);
  EXPECT_EQ(desk_.Admitted(kParent), 6);
  EXPECT_EQ(Waiting(), 0);
  desk_.EndAdmission(kParent, Status::Ok());
  EXPECT_EQ(desk_.Admitted(kParent), std::nullopt);
  EXPECT_EQ(desk_.tickets(), 0u);
  EXPECT_EQ(desk_.newcomers(), 0u);
  EXPECT_NE(Come(4, 1).message().find("used up"), std::string::npos);
  for (const Resource resource : {Resource::kTickets, Resource::kNewcomers, Resource::kMemory}) {
    EXPECT_EQ(held(resource), 0);
  }
  EXPECT_FALSE(waiting_.any());
}

TEST_F(TicketDeskTest, AGrowthThatFailsGivesTheUsesBackAndIsRememberedForLateRanks) {
  ASSERT_TRUE(Add(1).ok());
  ASSERT_TRUE(Come(1, 1).ok());
  desk_.Admit(kParent, job_, UniqueId(), 2, 1, kLater);
  EXPECT_TRUE(desk_.CheckGrowth(kParent, 3, kNow).ok());
  EXPECT_EQ(desk_.Leave(Key(1)), kParent);
  desk_.EndAdmission(kParent, RemoteError("it has died"));
  EXPECT_EQ(desk_.CheckGrowth(kParent, 3, kNow).message(), "it has died");
  EXPECT_TRUE(desk_.CheckGrowth(kParent, 4, kNow).ok()) << "another growth";
  EXPECT_TRUE(desk_.CheckGrowth(kParent, 3, kLater + 1).ok()) << "long ago";
  EXPECT_TRUE(Come(2, 1).ok());
  desk_.Admit(kParent, job_, UniqueId(), 2, 1, kLater);
  EXPECT_TRUE(desk_.CheckGrowth(kParent, 3, kNow).ok());
}

TEST_F(TicketDeskTest, NewcomersAreAdmittedInTheOrderOfTheirComing) {
  ASSERT_TRUE(Add(1, 3).ok());
  for (const uint64_t call : {30, 10, 20}) ASSERT_TRUE(Come(call, 1).ok());
  desk_.Admit(kParent, job_, UniqueId(), 2, 2, kLater);
  EXPECT_EQ(told_.at(Key(30))->rank, 2);
  EXPECT_EQ(told_.at(Key(10))->rank, 3);
  EXPECT_FALSE(told_.contains(Key(20)));
}

TEST_F(TicketDeskTest, StrangersGetOneAnswerWhateverIsWrong) {
  ASSERT_TRUE(Add(1).ok());
  ASSERT_TRUE(Add(2).ok());
  desk_.Burn(job_, InvalidUsage("they were burnt"), kNow);
  ASSERT_TRUE(Add(3).ok());
  std::vector<std::string> answers;
  for (const Tenant* const tenant : {&stranger_, &container_}) {
    const TicketDesk::Asker asker{tenant->identity.across_hosts, tenant, JobId(5)};
    for (const uint8_t number : {1, 3, 99}) {
      answers.push_back(desk_.Come(Key(1), Digest(number), asker, kNow).message());
      EXPECT_EQ(answers.back(), answers.front());
    }
  }
  const TicketDesk::Asker elsewhere{2000, nullptr, JobId(5)};
  EXPECT_EQ(desk_.Come(Key(1), Digest(3), elsewhere, kNow).message(), answers.front());
  EXPECT_FALSE(desk_.Knows(Digest(3), elsewhere));
  EXPECT_FALSE(desk_.Knows(Digest(1), elsewhere));
  EXPECT_FALSE(desk_.Knows(Digest(99), asker_));
  EXPECT_TRUE(desk_.Knows(Digest(1), asker_));
  EXPECT_TRUE(desk_.Knows(Digest(3), asker_));
  EXPECT_EQ(Come(1, 1).message(), "they were burnt");
  EXPECT_EQ(Come(1, 99).message(), answers.front());
  // Other daemons know users alone.
  EXPECT_TRUE(desk_.Come(Key(1), Digest(3), {1000, nullptr, JobId(5)}, kNow).ok());
}

TEST_F(TicketDeskTest, ATicketIsForOneJob) {
  ASSERT_TRUE(Add(1).ok());
  const TicketDesk::Asker other{1000, &owner_, JobId(6)};
  EXPECT_EQ(desk_.Come(Key(1), Digest(1), other, kNow).code(), Code::kInvalidUsage);
  EXPECT_EQ(Waiting(), 0);
}

// Containers of one user are tenants of their own, and their jobs may have the same id.
TEST_F(TicketDeskTest, ATicketTellsWhoseJobItIsFor) {
  const TicketDesk::JobKey of_container{1001, JobId(5)};
  ASSERT_TRUE(Add(1).ok());
  ASSERT_TRUE(desk_
                  .Add({.job = of_container,
                        .owner = &container_,
                        .made_here = true,
                        .digest = Digest(2),
                        .uses = 1,
                        .expires_ns = kLater,
                        .view = {}},
                       kNow)
                  .ok());
  const TicketDesk::Asker elsewhere{1000, nullptr, JobId(5)};
  EXPECT_EQ(*desk_.Check(Digest(1), elsewhere, kNow), job_);
  EXPECT_EQ(*desk_.Check(Digest(2), elsewhere, kNow), of_container);
  EXPECT_EQ(desk_.Check(Digest(2), asker_, kNow).status().code(), Code::kInvalidUsage)
      << "on its own host a container is told from its user";
  EXPECT_FALSE(desk_.Check(Digest(3), elsewhere, kNow).ok());
  EXPECT_EQ(Waiting(), 0) << "a look spends nothing";
}

TEST_F(TicketDeskTest, ExpiryAndBurningRefuseWhoWaitsButNotWhoIsAdmitted) {
  ASSERT_TRUE(Add(1, 1, kNow + 10).ok());
  ASSERT_TRUE(Add(2, 2).ok());
  ASSERT_TRUE(Come(1, 1).ok());
  ASSERT_TRUE(Come(2, 2).ok());
  EXPECT_TRUE(desk_.Tick(kNow + 10).empty());
  EXPECT_TRUE(IsRefused(1));
  EXPECT_FALSE(IsRefused(2));
  desk_.Admit(kParent, job_, UniqueId(), 2, 1, kLater);
  ASSERT_TRUE(Come(3, 2).ok());
  desk_.Burn(job_, InvalidUsage("they were burnt"), kNow);
  EXPECT_TRUE(IsRefused(3));
  EXPECT_TRUE(told_.at(Key(2)).ok());
  desk_.EndAdmission(kParent, Status::Ok());
  EXPECT_EQ(desk_.newcomers(), 0u);
}

TEST_F(TicketDeskTest, AnAdmissionEndsInTime) {
  ASSERT_TRUE(Add(1).ok());
  ASSERT_TRUE(Come(1, 1).ok());
  desk_.Admit(kParent, job_, UniqueId(), 2, 1, kNow + 10);
  EXPECT_TRUE(desk_.Tick(kNow).empty());
  EXPECT_EQ(desk_.Tick(kNow + 10), std::vector<uint64_t>{kParent});
}

TEST_F(TicketDeskTest, ADaemonThatIsLostTakesItsNewcomersAlong) {
  ASSERT_TRUE(Add(1, 3).ok());
  ASSERT_TRUE(Come(1, 1).ok());
  ASSERT_TRUE(desk_.Come({2, 1}, Digest(1), asker_, kNow).ok());
  ASSERT_TRUE(Come(2, 1).ok());
  desk_.Admit(kParent, job_, UniqueId(), 2, 1, kLater);
  EXPECT_EQ(desk_.LeaveAllOf(1), std::vector<uint64_t>{kParent});
  EXPECT_EQ(Waiting(), 1) << "the one of another daemon";
}

TEST_F(TicketDeskTest, EachTenantHasALimit) {
  for (uint8_t number = 1; number <= 70; ++number) ASSERT_TRUE(Add(number).ok());
  EXPECT_EQ(Add(71).code(), Code::kInvalidUsage);
  for (uint64_t call = 1; call <= 3; ++call) {
    ASSERT_TRUE(Come(call, static_cast<uint8_t>(call)).ok());
  }
  EXPECT_EQ(Come(4, 4).code(), Code::kInvalidUsage);
  // Reasons are remembered for the last ones alone.
  desk_.Burn(job_, InvalidUsage("they were burnt"), kNow);
  EXPECT_NE(Come(4, 1).message(), "they were burnt");
  EXPECT_EQ(Come(4, 70).message(), "they were burnt");
  EXPECT_EQ(held(Resource::kTickets), 0);
  EXPECT_EQ(held(Resource::kNewcomers), 0);
}

}  // namespace
}  // namespace harmonaize::daemon
