#include "daemon/formation/disagreements.h"

#include <gtest/gtest.h>

#include <memory>

#include "daemon/quota/holdings.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

constexpr uint64_t kHour = 3'600'000'000'000;

class DisagreementsTest : public ::testing::Test {
 protected:
  static ResourceLimits Limits() {
    ResourceLimits limits;
    limits.fill({1 << 20, 1 << 20});
    return limits;
  }
  int64_t ids() const { return account_->held(Resource::kUniqueIds); }

  const std::shared_ptr<Accounts> accounts_ = std::make_shared<Accounts>(Limits());
  const std::shared_ptr<Account> account_ = accounts_->Of(1000, "uid 1000");
  const Status why_ = InvalidUsage("the ranks disagree");
  const FormationKey named_{.kind = FormationKey::Kind::kNamedId};
  const FormationKey secret_{.kind = FormationKey::Kind::kSecretId};
};

TEST_F(DisagreementsTest, ARankThatKnowsBeginsAnewUnlessItsIdIsSpent) {
  Disagreements disagreements(kHour);
  disagreements.Remember(named_, why_, {0}, *account_);
  disagreements.Remember(secret_, why_, {0}, *account_);
  EXPECT_EQ(ids(), 2);
  for (const FormationKey& key : {named_, secret_}) {
    EXPECT_EQ(disagreements.Check(key, 1).message(), "the ranks disagree");
  }
  EXPECT_TRUE(disagreements.Check(named_, 1).ok());
  EXPECT_FALSE(disagreements.Check(secret_, 1).ok());
  EXPECT_EQ(ids(), 1);
}

TEST_F(DisagreementsTest, AreForgottenInTime) {
  Disagreements disagreements(kHour);
  disagreements.Remember(secret_, why_, {0}, *account_);
  disagreements.ForgetOld(MonotonicNanoseconds());
  EXPECT_FALSE(disagreements.empty());
  disagreements.ForgetOld(MonotonicNanoseconds() + kHour);
  EXPECT_TRUE(disagreements.empty());
  EXPECT_EQ(ids(), 0);
  Disagreements short_lived(0);
  short_lived.Remember(secret_, why_, {0}, *account_);
  EXPECT_TRUE(short_lived.Check(secret_, 0).ok());
}

}  // namespace
}  // namespace harmonaize::daemon
