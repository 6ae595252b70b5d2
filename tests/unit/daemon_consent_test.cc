#include <gtest/gtest.h>

#include "daemon/cluster/consent.h"

namespace harmonaize::daemon {
namespace {

using Outcome = Consent::Outcome;

TEST(Consent, AllHostsHaveToBeginTheSame) {
  Consent consent(3);
  EXPECT_EQ(consent.Take(2, 5, 77), Outcome::kWaiting);
  EXPECT_EQ(consent.Take(0, 5, 77), Outcome::kWaiting);
  EXPECT_EQ(consent.Take(0, 6, 78), Outcome::kWaiting);  // one host may be ahead
  EXPECT_EQ(consent.Take(1, 5, 77), Outcome::kAll);
  EXPECT_EQ(consent.Take(1, 6, 78), Outcome::kWaiting);
  EXPECT_EQ(consent.Take(2, 6, 78), Outcome::kAll);
}

TEST(Consent, OneThatDiffersIsToldOnce) {
  Consent consent(3);
  EXPECT_EQ(consent.Take(0, 0, 1), Outcome::kWaiting);
  EXPECT_EQ(consent.Take(1, 0, 2), Outcome::kDisagree);
  EXPECT_EQ(consent.Take(2, 0, 1), Outcome::kWaiting);
  consent.Forget(0);
  EXPECT_EQ(consent.Take(2, 0, 1), Outcome::kWaiting);
}

TEST(Consent, WhatEndsOtherwiseIsForgotten) {
  Consent consent(2);
  for (uint64_t sequence = 0; sequence < 4; ++sequence) {
    EXPECT_EQ(consent.Take(0, sequence, 1), Outcome::kWaiting);
  }
  consent.EndFrom(2);
  EXPECT_EQ(consent.Take(1, 1, 1), Outcome::kAll);
  EXPECT_EQ(consent.Take(1, 2, 1), Outcome::kWaiting);
}

}  // namespace
}  // namespace harmonaize::daemon
