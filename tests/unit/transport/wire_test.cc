#include "src/transport/tcp/wire.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace harmonaize::transport {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(FrameReader, FindsFramesHoweverTheyAreCut) {
  std::vector<std::byte> stream;
  AppendFrame(FrameType::kHeartbeat, {}, &stream);
  AppendFrame(FrameType::kMessage, Bytes("hello"), &stream);
  const std::vector<std::byte> large(kMaxControlBytes, std::byte{5});
  AppendFrame(FrameType::kMessage, large, &stream);
  AppendFrame(FrameType::kGoodbye, Bytes("bye"), &stream);
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    FrameReader reader;
    std::vector<std::pair<FrameType, size_t>> found;
    for (size_t at = 0; at < stream.size();) {
      const size_t bytes =
          std::min<size_t>(1 + random() % (round < 3 ? 20000 : 300000), stream.size() - at);
      reader.Append(std::span(stream).subspan(at, bytes));
      at += bytes;
      for (;;) {
        Result<std::optional<Frame>> frame = reader.Next();
        ASSERT_TRUE(frame.ok());
        if (!frame->has_value()) break;
        found.emplace_back((*frame)->type, (*frame)->payload.size());
      }
    }
    const std::vector<std::pair<FrameType, size_t>> expected = {{FrameType::kHeartbeat, 0},
                                                                {FrameType::kMessage, 5},
                                                                {FrameType::kMessage, large.size()},
                                                                {FrameType::kGoodbye, 3}};
    EXPECT_EQ(found, expected);
  }
}

TEST(FrameReader, RefusesWhatIsTooLongAtItsHeader) {
  std::vector<std::byte> stream;
  AppendFrame(FrameType::kMessage, std::vector<std::byte>(kMaxControlBytes + 1), &stream);
  FrameReader reader;
  reader.Append(std::span(stream).first(kFrameHeaderBytes));
  const Result<std::optional<Frame>> frame = reader.Next();
  ASSERT_FALSE(frame.ok());
  EXPECT_NE(frame.status().message().find(std::to_string(kMaxControlBytes)), std::string::npos);
  EXPECT_FALSE(reader.Next().ok());
}

TEST(FrameReader, RandomBytesDoNoHarm) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    FrameReader reader;
    std::vector<std::byte> bytes(random() % 200);
    for (std::byte& one : bytes) one = static_cast<std::byte>(random() % (round % 2 ? 9 : 256));
    reader.Append(bytes);
    size_t taken = 0;
    for (int i = 0; i < 100; ++i) {
      Result<std::optional<Frame>> frame = reader.Next();
      if (!frame.ok() || !frame->has_value()) break;
      taken += kFrameHeaderBytes + (*frame)->payload.size();
    }
    EXPECT_LE(taken, bytes.size());
  }
}

Hello SomeHello() {
  Hello hello;
  hello.token = 0x1234567890abcdefu;
  hello.dead_after_ms = 2000;
  hello.rails = {{RailAnnouncement::Kind::kTcp, 24, "10.0.0.1:7000"},
                 {RailAnnouncement::Kind::kUcx, 0, std::string("\0\1\2", 3)}};
  return hello;
}

TEST(Hello, SurvivesTheWire) {
  const Result<Hello> read = DecodeHello(EncodeHello(SomeHello()));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, SomeHello());
}

TEST(Hello, CutAndChangedOnesAreRefusedOrHarmless) {
  const std::vector<std::byte> good = EncodeHello(SomeHello());
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(DecodeHello(std::span(good).first(length)).ok()) << length;
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(DecodeHello(longer).ok());
  std::mt19937 random(9);
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::byte> changed = good;
    for (int i = 0; i < 3; ++i) {
      changed[random() % changed.size()] = static_cast<std::byte>(random());
    }
    const Result<Hello> read = DecodeHello(changed);
    EXPECT_TRUE(!read.ok() || read->rails.size() <= kMaxRails);
  }
}

}  // namespace
}  // namespace harmonaize::transport
