#include "daemon/tenant/ready_parts.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace harmonaize::daemon {
namespace {

class ReadyPartsTest : public ::testing::Test {
 protected:
  /// Returns a new tenant with this many ready parts.
  Tenant& TenantWith(int parts) {
    const auto number = static_cast<uint32_t>(tenants_.size());
    tenants_.push_back(std::make_unique<Tenant>(
        TenantIdentity{number, number, number, "t" + std::to_string(number)},
        std::make_shared<Account>(host_, "t")));
    Add(*tenants_.back(), parts);
    return *tenants_.back();
  }
  void Add(Tenant& tenant, int parts) {
    for (int i = 0; i < parts; ++i) {
      PostedOperation& part = parts_.emplace_back();
      part.arrived_ns = tenant.identity.number;
      ReadyParts::ListOf(tenant)->push_back(&part);
    }
    ready_.Note(tenant);
  }
  /// Takes one turn, and returns the number of the tenant of each part that was taken.
  std::vector<uint64_t> TakeTurn() {
    std::vector<uint64_t> taken;
    ready_.TakeTurn([&](PostedOperation* part) { taken.push_back(part->arrived_ns); });
    return taken;
  }

  ReadyParts ready_;

 private:
  const std::shared_ptr<HostHoldings> host_ = std::make_shared<HostHoldings>(ResourceLimits{});
  std::vector<std::unique_ptr<Tenant>> tenants_;
  std::deque<PostedOperation> parts_;
};

TEST_F(ReadyPartsTest, NobodyWaitsBehindAllThatAnotherTenantHas) {
  TenantWith(100'000);
  TenantWith(1);
  const std::vector<uint64_t> taken = TakeTurn();
  EXPECT_LT(taken.size(), 100u);
  EXPECT_EQ(taken.back(), 1u);
  EXPECT_FALSE(ready_.empty());
}

TEST_F(ReadyPartsTest, EachIsTakenOnceAndInOrder) {
  Tenant& tenant = TenantWith(0);
  EXPECT_TRUE(ready_.empty());
  Add(tenant, 1000);
  const std::vector<PostedOperation*> parts = *ReadyParts::ListOf(tenant);
  std::vector<PostedOperation*> taken;
  while (!ready_.empty()) {
    ready_.TakeTurn([&](PostedOperation* part) { taken.push_back(part); });
  }
  EXPECT_EQ(taken, parts);
}

// A part that ends may make others ready, of its own tenant or of another.
TEST_F(ReadyPartsTest, PartsThatComeDuringATurnAreTaken) {
  Tenant& first = TenantWith(1);
  Tenant& second = TenantWith(0);
  int taken = 0;
  while (!ready_.empty()) {
    ready_.TakeTurn([&](PostedOperation*) {
      if (++taken < 500) Add(taken % 2 == 0 ? first : second, 1);
    });
  }
  EXPECT_EQ(taken, 500);
}

}  // namespace
}  // namespace harmonaize::daemon
