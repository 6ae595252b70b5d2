// Floors and caps of owners on one device, at times that are made up.

#include "src/transport/queue/owner_rates.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

namespace harmonaize::transport {
namespace {

constexpr uint64_t kOneSecondNs = 1'000'000'000;
constexpr size_t kRatesFrame = 16 << 10;

class OwnerRatesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Poller>> poller = Poller::Create();
    ASSERT_TRUE(poller.ok());
    poller_ = std::move(*poller);
    rates_ = std::make_unique<OwnerRates>(poller_.get());
  }

  std::unique_ptr<Poller> poller_;
  std::unique_ptr<OwnerRates> rates_;
};

TEST_F(OwnerRatesTest, ACapHoldsForAllJobsOfAnOwner) {
  double sent = 0;
  uint64_t now_ns = kOneSecondNs;
  // Two jobs whose messages come by turns, as fast as they may.
  for (; now_ns < 11 * kOneSecondNs; now_ns += 100'000) {
    for (uint64_t job = 1; job <= 2; ++job) {
      rates_->Note({.tenant = 1, .job = job, .owner = 7, .cap = 10e6}, now_ns);
      const std::shared_ptr<OwnerRate> rate = rates_->Of(1, 7);
      if (rate->WaitNs(now_ns) > 0) continue;
      rate->Charge(kRatesFrame);
      sent += kRatesFrame;
    }
  }
  EXPECT_LE(sent, 1.005 * 100e6);
  EXPECT_GE(sent, 0.99 * 100e6);
}

TEST_F(OwnerRatesTest, ACapOfATenantIsKeptBesideThoseOfItsOwners) {
  const auto owned = [](uint64_t owner, float tenant_cap) {
    return TenantShare{.tenant = 1, .owner = owner, .cap = 1e9, .tenant_cap = tenant_cap};
  };
  for (uint64_t owner = 1; owner <= 2; ++owner) rates_->Note(owned(owner, 1e6), kOneSecondNs);
  rates_->Note({.tenant = 2, .owner = 1, .cap = 1e9}, kOneSecondNs);
  EXPECT_EQ(rates_->OfTenant(2), nullptr);
  const std::shared_ptr<OwnerRate> tenant = rates_->OfTenant(1);
  ASSERT_NE(tenant, nullptr);
  tenant->Charge(size_t{1} << 40);  // days
  EXPECT_GT(tenant->WaitNs(2 * kOneSecondNs), 0);
  EXPECT_EQ(rates_->Of(1, 2)->WaitNs(2 * kOneSecondNs), 0) << "it has not reached its own cap";
  rates_->Note({.tenant = 1}, 2 * kOneSecondNs);
  EXPECT_GT(tenant->WaitNs(2 * kOneSecondNs), 0) << "the daemon's own messages lift no cap";
  rates_->Note(owned(2, 0), 2 * kOneSecondNs);
  EXPECT_EQ(tenant->WaitNs(2 * kOneSecondNs), 0);
}

TEST_F(OwnerRatesTest, AFloorIsWhatIsLackingToItsRate) {
  uint64_t now_ns = kOneSecondNs;
  double promised = 0;
  double others = 0;
  // The device sends 100 MB/s; whoever is not behind its floor lets the others go first.
  for (; now_ns < 11 * kOneSecondNs; now_ns += kRatesFrame * 10) {
    rates_->Note({.tenant = 1, .job = 1, .owner = 7, .floor = 40e6}, now_ns);
    const std::shared_ptr<OwnerRate> rate = rates_->Of(1, 7);
    if (rate->SecondsBehind(now_ns) > 0) {
      rate->Charge(kRatesFrame);
      promised += kRatesFrame;
    } else {
      others += kRatesFrame;
    }
  }
  EXPECT_NEAR(promised, 400e6, 4e6);
  EXPECT_NEAR(others, 600e6, 4e6);
}

// What an owner had beyond its floor while nobody else wanted it is not held against it.
TEST_F(OwnerRatesTest, AFloorHoldsAtOnceAfterMoreThanThat) {
  uint64_t now_ns = kOneSecondNs;
  rates_->Note({.tenant = 1, .job = 1, .owner = 7, .floor = 40e6}, now_ns);
  const std::shared_ptr<OwnerRate> rate = rates_->Of(1, 7);
  for (int i = 0; i < 100'000; ++i) rate->Charge(kRatesFrame);
  now_ns += 2'000'000;
  EXPECT_GT(rate->SecondsBehind(now_ns), 0);
}

/// Asks for floors on a device that always has something to send for all owners that are behind.
class TenantFloorTest : public OwnerRatesTest {
 protected:
  void Note(uint64_t owner, float floor, float tenant_floor) {
    rates_->Note({.tenant = 1, .owner = owner, .floor = floor, .tenant_floor = tenant_floor},
                 now_ns_);
  }
  /// Returns the bytes that floors of these owners take in ten seconds.
  std::map<uint64_t, double> Take(uint64_t owners) {
    std::map<uint64_t, double> taken;
    for (const uint64_t end_ns = now_ns_ + 10 * kOneSecondNs; now_ns_ < end_ns; now_ns_ += 50'000) {
      for (uint64_t owner = 1; owner <= owners; ++owner) {
        const std::shared_ptr<OwnerRate> rate = rates_->Of(1, owner);
        if (rate == nullptr || rate->SecondsBehind(now_ns_) <= 0) continue;
        rate->Charge(kRatesFrame);
        taken[owner] += kRatesFrame;
      }
    }
    return taken;
  }

  uint64_t now_ns_ = kOneSecondNs;
};

TEST_F(TenantFloorTest, HoldsForAllItsOwnersTogetherFirstComeFirstServed) {
  for (uint64_t owner = 1; owner <= 3; ++owner) Note(owner, 4e6F, 10e6F);
  rates_->Note({.tenant = 2, .owner = 1, .floor = 4e6F, .tenant_floor = 4e6F}, now_ns_);
  std::map<uint64_t, double> taken = Take(3);
  EXPECT_NEAR(taken[1], 40e6, 1e6);
  EXPECT_NEAR(taken[2], 40e6, 1e6);
  EXPECT_NEAR(taken[3], 20e6, 1e6) << "what is left of the bound";
  EXPECT_GT(rates_->Of(2, 1)->SecondsBehind(now_ns_), 0) << "another tenant's";
}

TEST_F(TenantFloorTest, ManyOwnersTakeNoMoreThanItAllows) {
  for (uint64_t owner = 1; owner <= 100; ++owner) Note(owner, 10e6F, 10e6F);
  double sum = 0;
  for (const auto& [owner, taken] : Take(100)) sum += taken;
  EXPECT_NEAR(sum, 100e6, 2e6);
}

TEST_F(TenantFloorTest, WhatAnOwnerGivesUpTheNextMessageOfAnotherGets) {
  Note(1, 10e6F, 10e6F);
  Note(2, 10e6F, 10e6F);
  EXPECT_FALSE(rates_->Of(1, 2)->has_floor());
  Note(1, 4e6F, 10e6F);
  Note(2, 10e6F, 10e6F);
  std::map<uint64_t, double> taken = Take(2);
  EXPECT_NEAR(taken[1], 40e6, 1e6);
  EXPECT_NEAR(taken[2], 60e6, 1e6);
}

TEST_F(TenantFloorTest, WhatAForgottenOwnerHadOthersGet) {
  Note(1, 10e6F, 10e6F);
  now_ns_ += OwnerRates::kForgottenNs / 2;
  Note(2, 10e6F, 10e6F);
  EXPECT_FALSE(rates_->Of(1, 2)->has_floor());
  now_ns_ += OwnerRates::kForgottenNs;
  Note(2, 10e6F, 10e6F);
  EXPECT_EQ(rates_->Of(1, 1), nullptr);
  EXPECT_TRUE(rates_->Of(1, 2)->has_floor());
}

TEST_F(TenantFloorTest, ALowerOneHoldsWithTheNextMessageOfEach) {
  for (uint64_t owner = 1; owner <= 2; ++owner) Note(owner, 5e6F, 10e6F);
  for (uint64_t owner = 1; owner <= 2; ++owner) Note(owner, 5e6F, 6e6F);
  double sum = 0;
  for (const auto& [owner, taken] : Take(2)) sum += taken;
  EXPECT_NEAR(sum, 60e6, 1e6);
}

TEST_F(TenantFloorTest, AloneItIsNoReasonToKeepRates) {
  Note(1, 0, 10e6F);
  EXPECT_TRUE(rates_->empty());
}

TEST_F(OwnerRatesTest, OwnersWithoutTermsTakeNoRoom) {
  for (uint64_t owner = 1; owner <= 1000; ++owner) {
    rates_->Note({.tenant = 1, .job = 1, .owner = owner}, kOneSecondNs);
  }
  EXPECT_TRUE(rates_->empty());
}

TEST_F(OwnerRatesTest, OwnersThatAreSilentAreForgotten) {
  uint64_t now_ns = 100 * kOneSecondNs;
  for (uint64_t owner = 1; owner <= 1000; ++owner) {
    rates_->Note({.tenant = 1, .job = 1, .owner = owner, .cap = 1e6}, now_ns);
  }
  EXPECT_NE(rates_->Of(1, 1), nullptr);
  now_ns += 2 * OwnerRates::kForgottenNs;
  rates_->Note({.tenant = 2, .job = 1, .owner = 1, .cap = 1e6}, now_ns);
  EXPECT_EQ(rates_->Of(1, 1), nullptr);
  EXPECT_NE(rates_->Of(2, 1), nullptr);
}

TEST_F(OwnerRatesTest, OwnersWhoseRateIsHeldAreNot) {
  uint64_t now_ns = 100 * kOneSecondNs;
  rates_->Note({.tenant = 1, .owner = 1, .cap = 1e6}, now_ns);
  std::shared_ptr<OwnerRate> held = rates_->Of(1, 1);
  for (const bool is_held : {true, false}) {
    if (!is_held) held.reset();
    now_ns += 2 * OwnerRates::kForgottenNs;
    rates_->Note({.tenant = 2, .owner = 1, .cap = 1e6}, now_ns);
    EXPECT_EQ(rates_->Of(1, 1) != nullptr, is_held);
  }
}

}  // namespace
}  // namespace harmonaize::transport
