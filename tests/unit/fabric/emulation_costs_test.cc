#include "perf/fabric/emulation_costs.h"

#include <gtest/gtest.h>

namespace harmonaize::fabric {
namespace {

TEST(EmulationCosts, GoByWhatAMessageTakesHere) {
  const Result<double> message = MeasureMessage();
  ASSERT_TRUE(message.ok()) << message.status().message();
  EXPECT_GT(*message, 0);
  const StatedCosts costs = EmulationCosts(*message);
  EXPECT_GT(costs.message_us, *message * 1e6) << "the kernel's share is not all of it";
  const StatedCosts slower = EmulationCosts(2 * *message);
  EXPECT_DOUBLE_EQ(slower.message_us, 2 * costs.message_us);
  EXPECT_DOUBLE_EQ(slower.handling_us, 2 * costs.handling_us);
  EXPECT_EQ(slower.wire_gbps, costs.wire_gbps) << "bytes are not messages";
  EXPECT_GE(costs.shared_processors, 1);
}

}  // namespace
}  // namespace harmonaize::fabric
