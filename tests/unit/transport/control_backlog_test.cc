#include "src/transport/link/control_backlog.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace harmonaize::transport {
namespace {

constexpr size_t kPayloadBytes = 1000;
const std::vector<std::byte> kPayload(kPayloadBytes);

/// Appends messages of this sender until there is no room. Returns their bytes.
size_t Fill(ControlBacklog* backlog, ControlSender sender) {
  const size_t before = backlog->size();
  while (backlog->HasRoom(sender, kPayloadBytes)) {
    backlog->Append(sender, FrameType::kMessage, kPayload);
  }
  return backlog->size() - before;
}

TEST(ControlBacklog, ASenderThatFloodsLeavesRoomForOthers) {
  ControlBacklog backlog;
  const size_t first = Fill(&backlog, 1);
  EXPECT_NEAR(static_cast<double>(first), ControlBacklog::kMostBytes / 2.0, 2 * kPayloadBytes);
  EXPECT_FALSE(backlog.HasRoom(1, kPayloadBytes));
  const size_t second = Fill(&backlog, 2);
  EXPECT_NEAR(static_cast<double>(second), ControlBacklog::kMostBytes / 4.0, 2 * kPayloadBytes);
  EXPECT_TRUE(backlog.HasRoom(3, kPayloadBytes));
  // The first one has too much now, and the daemon's own messages have room of their own.
  EXPECT_FALSE(backlog.HasRoom(1, 1));
  EXPECT_GE(Fill(&backlog, kOwnMessages), ControlBacklog::kMostOwnBytes);
  EXPECT_FALSE(backlog.HasRoom(3, 1));
}

TEST(ControlBacklog, RoomComesBackWithWhatWasSent) {
  ControlBacklog backlog;
  const size_t filled = Fill(&backlog, 1);
  backlog.Drop(filled / 2);
  EXPECT_TRUE(backlog.HasRoom(1, kPayloadBytes));
  backlog.Drop(backlog.size());
  EXPECT_TRUE(backlog.empty());
  EXPECT_EQ(Fill(&backlog, 1), filled);
}

TEST(ControlBacklog, BytesComeInOrderHoweverTheyAreDropped) {
  std::mt19937 random(7);
  ControlBacklog backlog;
  std::vector<std::byte> expected;
  std::vector<std::byte> sent;
  const auto send = [&](size_t bytes) {
    const auto waiting = backlog.bytes().first(std::min(bytes, backlog.size()));
    sent.insert(sent.end(), waiting.begin(), waiting.end());
    backlog.Drop(waiting.size());
  };
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::byte> payload(random() % 300, static_cast<std::byte>(i));
    AppendFrame(FrameType::kMessage, payload, &expected);
    backlog.Append(random() % 4, FrameType::kMessage, payload);
    if (random() % 2 == 0) send(random() % 600);
  }
  send(backlog.size());
  EXPECT_EQ(sent, expected);
}

}  // namespace
}  // namespace harmonaize::transport
