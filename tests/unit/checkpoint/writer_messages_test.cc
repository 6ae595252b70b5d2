#include "src/checkpoint/writer_messages.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace harmonaize::checkpoint {
namespace {

const OpenStore kOpen = {.folder = "/data/store",
                         .job = "llama",
                         .rank = 3,
                         .ranks = 4,
                         .format = StoreFormat::kUcp,
                         .keep = 5,
                         .most_bytes_per_second = 250'000'000,
                         .linger_seconds = 60};

TEST(WriterMessages, AreReadAsTheyWereWritten) {
  const std::vector<ToWriter> to = {
      kOpen, LendBuffer{.index = 1, .bytes = 1 << 30},
      SaveImage{.buffer = 1, .step = 1200, .save = UINT64_MAX, .bytes = 4096, .is_kept = true}};
  for (const ToWriter& message : to) {
    const Result<std::string> text = Encode(message);
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    const Result<ToWriter> again = DecodeToWriter(*text);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(*again, message);
  }
  const std::vector<FromWriter> from = {
      StoreOpened{}, PartWritten{.step = 1, .save = 2, .bytes = 3, .new_bytes = 4, .seconds = 0.5},
      CheckpointCommitted{.step = INT64_MAX, .save = 2},
      SaveFailed{.step = 1, .save = 2, .code = Code::kSystemError, .message = "no space left"}};
  for (const FromWriter& message : from) {
    const Result<std::string> text = Encode(message);
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    const Result<FromWriter> again = DecodeFromWriter(*text);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(*again, message);
  }
}

TEST(WriterMessages, WhatNobodyMaySayIsNotSent) {
  OpenStore open = kOpen;
  open.folder = "store";
  EXPECT_FALSE(Encode(ToWriter(open)).ok());
  for (const char* job : {"a/b", "..", "a\nb"}) {
    open = kOpen;
    open.job = job;
    EXPECT_FALSE(Encode(ToWriter(open)).ok()) << job;
  }
  open = kOpen;
  open.rank = 4;
  EXPECT_FALSE(Encode(ToWriter(open)).ok());
  open.rank = -1;
  EXPECT_FALSE(Encode(ToWriter(open)).ok());
  EXPECT_FALSE(Encode(ToWriter(SaveImage{.step = uint64_t{1} << 63, .bytes = 4096})).ok());
  EXPECT_FALSE(Encode(ToWriter(LendBuffer{.index = kMostLentBuffers, .bytes = 4096})).ok());
}

TEST(WriterMessages, TheWordsOfAFailureAreCleaned) {
  const FromWriter message = SaveFailed{.message = std::string(10000, 'x') + "\x1b[2J"};
  const Result<std::string> text = Encode(message);
  ASSERT_TRUE(text.ok());
  const Result<FromWriter> again = DecodeFromWriter(*text);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(std::get<SaveFailed>(*again).message, std::string(kMostFailureBytes, 'x'));
}

TEST(WriterMessages, WhatIsNoneIsRefused) {
  for (const char* text :
       {"", "{", "[]", "null", "{}", R"({"save":1})", R"({"save":[]})", R"({"save":{}})",
        R"({"save":{"buffer":0,"step":-1,"save":1,"bytes":4096,"kept":false}})",
        R"({"save":{"buffer":0,"step":1.5,"save":1,"bytes":4096,"kept":false}})",
        R"({"save":{"buffer":16,"step":1,"save":1,"bytes":4096,"kept":false}})",
        R"({"save":{"buffer":0,"step":1,"save":1,"bytes":4096,"kept":1}})",
        R"({"buffer":{"index":0,"bytes":99999999999999999999999}})"}) {
    EXPECT_FALSE(DecodeToWriter(text).ok()) << text;
  }
  EXPECT_FALSE(DecodeToWriter(std::string(kMostWriterMessageBytes + 1, ' ')).ok());
  EXPECT_FALSE(DecodeToWriter(std::string(40000, '[')).ok());
  EXPECT_FALSE(DecodeFromWriter(R"({"open":{}})").ok());
}

TEST(WriterMessages, DamagedOnesHarmNobody) {
  const std::string sound = *Encode(ToWriter(kOpen));
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = sound;
    for (int i = 0; i <= round % 3; ++i) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const Result<ToWriter> message = DecodeToWriter(text);
    if (!message.ok()) {
      ++refused;
      continue;
    }
    EXPECT_TRUE(Encode(*message).ok()) << text;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace harmonaize::checkpoint
