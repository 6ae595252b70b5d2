#include "src/ipc/profile_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace harmonaize {
namespace {

std::unique_ptr<ProfileRing> MakeRing() {
  // Value-initialized: zeros, as fresh shared memory.
  return std::make_unique<ProfileRing>();
}

/// Words of which a mixed record would be noticed: each follows from the first.
ProfileWords WordsOf(uint64_t number) {
  ProfileWords words;
  for (size_t i = 0; i < kProfileWords; ++i) words[i] = number * (i + 1);
  return words;
}

TEST(ProfileRing, ReadsWhatWasWrittenInItsOrder) {
  const auto ring = MakeRing();
  ProfileRingReader reader(ring.get());
  for (uint64_t i = 1; i <= 10; ++i) EXPECT_TRUE(WriteProfileWords(ring.get(), WordsOf(i)));
  std::array<ProfileWords, 7> taken;
  EXPECT_EQ(reader.Take(taken, 1), 7u);
  for (uint64_t i = 0; i < 7; ++i) EXPECT_EQ(taken[i], WordsOf(i + 1));
  EXPECT_EQ(reader.Take(taken, 1), 3u);
  EXPECT_EQ(taken[0], WordsOf(8));
  EXPECT_EQ(reader.Take(taken, 1), 0u);
  EXPECT_EQ(reader.TakeLost(), 0u);
}

TEST(ProfileRing, RefusesWhatFindsNoPlaceAndGoesOnOnceThereIsOne) {
  const auto ring = MakeRing();
  ProfileRingReader reader(ring.get());
  for (uint64_t i = 0; i < kProfileSlots; ++i) {
    ASSERT_TRUE(WriteProfileWords(ring.get(), WordsOf(i)));
  }
  EXPECT_FALSE(WriteProfileWords(ring.get(), WordsOf(0)));
  CountLostProfileEvent(ring.get());
  EXPECT_EQ(reader.TakeLost(), 1u);
  EXPECT_EQ(reader.TakeLost(), 0u);
  std::array<ProfileWords, 1> one;
  EXPECT_EQ(reader.Take(one, 1), 1u);
  EXPECT_TRUE(WriteProfileWords(ring.get(), WordsOf(kProfileSlots)));
  EXPECT_FALSE(WriteProfileWords(ring.get(), WordsOf(0)));
  std::vector<ProfileWords> rest(2 * kProfileSlots);
  EXPECT_EQ(reader.Take(rest, 1), kProfileSlots);
  EXPECT_EQ(rest[kProfileSlots - 1], WordsOf(kProfileSlots));
}

TEST(ProfileRing, SkipsAHoleAfterAWhileAndCountsIt) {
  const auto ring = MakeRing();
  ProfileRingReader reader(ring.get());
  // A writer that died between its place and its turn.
  ring->tail.fetch_add(1);
  EXPECT_TRUE(WriteProfileWords(ring.get(), WordsOf(5)));
  std::array<ProfileWords, 4> taken;
  EXPECT_EQ(reader.Take(taken, 100), 0u);
  EXPECT_EQ(reader.Take(taken, 100 + kProfileHoleNanoseconds - 1), 0u);
  EXPECT_EQ(reader.TakeLost(), 0u);
  EXPECT_EQ(reader.Take(taken, 100 + kProfileHoleNanoseconds), 0u);
  EXPECT_EQ(reader.TakeLost(), 1u);
  EXPECT_EQ(reader.Take(taken, 200 + kProfileHoleNanoseconds), 1u);
  EXPECT_EQ(taken[0], WordsOf(5));
}

TEST(ProfileRing, FalseWordsOfAProcessCostOneSlotForEachCall) {
  const auto ring = MakeRing();
  ProfileRingReader reader(ring.get());
  std::array<ProfileWords, 8> taken;
  for (const uint64_t tail : {uint64_t{UINT64_MAX}, uint64_t{1} << 63, uint64_t{3}}) {
    ring->tail.store(tail);
    EXPECT_EQ(reader.Take(taken, 1), 0u);
  }
  // Turns that nobody had.
  for (ProfileSlot& slot : ring->slots) slot.turn.store(UINT64_MAX);
  EXPECT_EQ(reader.Take(taken, 2), 0u);
  // All turns at once, of a process that writes the whole ring by itself.
  for (uint64_t i = 0; i < kProfileSlots; ++i) ring->slots[i].turn.store(i + 1);
  std::vector<ProfileWords> many(3 * kProfileSlots);
  EXPECT_EQ(reader.Take(many, 3), kProfileSlots);
  EXPECT_EQ(reader.Take(many, 4), 0u);
  // A count of losses that falls, and one that is as large as can be.
  ring->lost.store(5);
  EXPECT_EQ(reader.TakeLost(), 5u);
  ring->lost.store(2);
  EXPECT_EQ(reader.TakeLost(), 0u);
  ring->lost.store(UINT64_MAX);
  EXPECT_EQ(reader.TakeLost(), UINT64_MAX - 2);
}

// Several threads write as fast as they can while one reads. Nothing is mixed, nothing comes twice,
// each writer's records keep their order, and what is missing was refused.
TEST(ProfileRing, SeveralWritersAndAReader) {
  constexpr uint64_t kWriters = 4;
  constexpr uint64_t kEach = 60'000;
  const auto ring = MakeRing();
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> writing{kWriters};
  std::vector<std::thread> writers;
  for (uint64_t writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      for (uint64_t i = 1; i <= kEach; ++i) {
        if (!WriteProfileWords(ring.get(), WordsOf(writer << 32 | i))) refused.fetch_add(1);
      }
      writing.fetch_sub(1);
    });
  }
  ProfileRingReader reader(ring.get());
  std::array<uint64_t, kWriters> last{};
  std::vector<ProfileWords> taken(512);
  uint64_t read = 0;
  for (bool was_writing = true; was_writing;) {
    was_writing = writing.load() > 0;
    for (size_t count = taken.size(); count == taken.size();) {
      count = reader.Take(taken, 1);
      read += count;
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(taken[i], WordsOf(taken[i][0]));
        const uint64_t writer = taken[i][0] >> 32;
        ASSERT_LT(writer, kWriters);
        const uint64_t number = taken[i][0] & UINT32_MAX;
        ASSERT_GT(number, last[writer]);
        last[writer] = number;
      }
    }
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(read + refused.load(), kWriters * kEach);
}

TEST(ProfileRecord, PassesOnlyWhatAPluginWrites) {
  ProfileRecord record{.kind = ProfileKind::kCollective,
                       .function = ProfileFunction::kAllReduce,
                       .communicator = kMostProfiledCommunicators - 1,
                       .flags = kTimedByKernels};
  const auto checked = [](const ProfileRecord& one) {
    return CheckedProfileRecord(std::bit_cast<ProfileWords>(one)).has_value();
  };
  EXPECT_TRUE(checked(record));
  for (int byte = 0; byte < 4; ++byte) {
    auto words = std::bit_cast<std::array<uint8_t, sizeof(ProfileRecord)>>(record);
    words[static_cast<size_t>(byte)] = 0xff;
    EXPECT_FALSE(CheckedProfileRecord(std::bit_cast<ProfileWords>(words)).has_value()) << byte;
  }
  record.communicator = kMostProfiledCommunicators;
  EXPECT_FALSE(checked(record));
  record.communicator = 0;
  record.flags = 2;
  EXPECT_FALSE(checked(record));
  record.flags = 0;
  record.kind = ProfileKind::kCommunicator;
  EXPECT_FALSE(checked(record));
}

TEST(ProfileRecord, PassesOnlyCommunicatorsThatCanBe) {
  const auto checked = [](int ranks, int rank, int hosts) {
    const ProfiledCommunicator one{.ranks = ranks, .rank = rank, .hosts = hosts};
    return CheckedProfiledCommunicator(std::bit_cast<ProfileWords>(one)).has_value();
  };
  EXPECT_TRUE(checked(0, -1, 0));
  EXPECT_TRUE(checked(8, 7, 2));
  EXPECT_TRUE(checked(1, 0, 1));
  EXPECT_FALSE(checked(8, 8, 2));
  EXPECT_FALSE(checked(8, -1, 2));
  EXPECT_FALSE(checked(8, 0, 9));
  EXPECT_FALSE(checked(8, 0, -1));
  EXPECT_FALSE(checked(-8, 0, 1));
  EXPECT_FALSE(checked(INT32_MAX, 0, 1));
  EXPECT_FALSE(checked(0, 0, 0));
}

TEST(ProfileRecord, NamesAreDifferentAndThereForEachValue) {
  for (int kind = 0; kind < kProfileKindCount; ++kind) {
    EXPECT_FALSE(ProfileKindName(static_cast<ProfileKind>(kind)).empty()) << kind;
    for (int other = 0; other < kind; ++other) {
      EXPECT_NE(ProfileKindName(static_cast<ProfileKind>(kind)),
                ProfileKindName(static_cast<ProfileKind>(other)));
    }
  }
  for (int function = 1; function < kProfileFunctionCount; ++function) {
    EXPECT_FALSE(ProfileFunctionName(static_cast<ProfileFunction>(function)).empty()) << function;
  }
  EXPECT_EQ(ProfileFunctionName(ProfileFunction::kWaitSignal), "WaitSignal");
  EXPECT_EQ(ProfileAlgorithmName(ProfileAlgorithm::kPat), "PAT");
  EXPECT_EQ(ProfileProtocolName(ProfileProtocol::kSimple), "SIMPLE");
  EXPECT_EQ(ProfileKindName(ProfileKind::kCopyBatch), "copy_batch");
  EXPECT_EQ(ProfileKindName(static_cast<ProfileKind>(200)), "other");
}

}  // namespace
}  // namespace harmonaize
