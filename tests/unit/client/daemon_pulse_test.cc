// When a daemon counts as slow, or as lost.

#include "src/client/session/daemon_pulse.h"

#include <gtest/gtest.h>

#include <memory>

namespace harmonaize {
namespace {

using Finding = DaemonPulse::Finding;
constexpr uint64_t kSecond = 1'000'000'000;

class DaemonPulseTest : public ::testing::Test {
 protected:
  void Answer() { header_->answered_sign = header_->sign.load(); }

  const std::unique_ptr<SessionHeader> header_ = std::make_unique<SessionHeader>();
  DaemonPulse pulse_;
};

TEST_F(DaemonPulseTest, ASignThatIsNotAnsweredIsMentionedAndThenCountsAsTheEnd) {
  EXPECT_EQ(pulse_.Look(header_.get(), 100 * kSecond), Finding::kRing);
  EXPECT_EQ(pulse_.Look(header_.get(), 104 * kSecond), Finding::kAlive);
  EXPECT_EQ(pulse_.Look(header_.get(), 106 * kSecond), Finding::kSlow);
  EXPECT_EQ(pulse_.Look(header_.get(), 107 * kSecond), Finding::kAlive);
  EXPECT_EQ(pulse_.Look(header_.get(), 130 * kSecond), Finding::kSilent);
  Answer();
  EXPECT_EQ(pulse_.Look(header_.get(), 131 * kSecond), Finding::kRing);
  Answer();
  EXPECT_EQ(pulse_.Look(header_.get(), 131 * kSecond), Finding::kAlive);
}

// A thread that is held up after it has read the clock looks after one that has read it later.
TEST_F(DaemonPulseTest, AThreadWithAnEarlierTimeTakesNobodyForLost) {
  EXPECT_EQ(pulse_.Look(header_.get(), 100 * kSecond), Finding::kRing);
  EXPECT_EQ(pulse_.Look(header_.get(), 100 * kSecond - 1), Finding::kAlive);
  Answer();
  EXPECT_EQ(pulse_.Look(header_.get(), 100 * kSecond - 1), Finding::kAlive);
}

}  // namespace
}  // namespace harmonaize
