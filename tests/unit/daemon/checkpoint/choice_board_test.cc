#include "daemon/checkpoint/choice_board.h"

#include <gtest/gtest.h>

#include <string>

namespace harmonaize::daemon {
namespace {

TEST(ChoiceBoard, EachRankHearsEachChoiceOnceInOrder) {
  ChoiceBoard board;
  EXPECT_EQ(*board.Hear(1), std::nullopt);
  board.Post("a");
  EXPECT_EQ(*board.Hear(0), "a");
  board.Post("b");
  EXPECT_EQ(*board.Hear(1), "a");
  EXPECT_EQ(*board.Hear(1), "b");
  EXPECT_EQ(*board.Hear(1), std::nullopt);
  EXPECT_EQ(*board.Hear(0), "b");
}

TEST(ChoiceBoard, OnesThatComeTwiceAreHeardOnce) {
  ChoiceBoard board;
  board.Take(1, "a");
  board.Take(1, "a");
  board.Take(2, "b");
  board.Take(1, "a");
  EXPECT_EQ(*board.Hear(3), "a");
  EXPECT_EQ(*board.Hear(3), "b");
  EXPECT_EQ(*board.Hear(3), std::nullopt);
}

TEST(ChoiceBoard, ARankTooFarBehindIsTold) {
  ChoiceBoard board;
  for (size_t i = 0; i <= ChoiceBoard::kMostKept; ++i) board.Post(std::to_string(i));
  EXPECT_EQ(board.Hear(0).status().code(), Code::kInvalidUsage);
}

TEST(ChoiceBoard, WhatCameBeforeALostOneIsNotHeard) {
  ChoiceBoard board;
  board.Take(1, "a");
  board.Take(3, "c");
  EXPECT_EQ(board.Hear(0).status().code(), Code::kInvalidUsage) << "it cannot know the second";
}

}  // namespace
}  // namespace harmonaize::daemon
