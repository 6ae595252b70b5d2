#include "daemon/requirements/statements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/cluster/messages/event.h"
#include "tests/support/sanitized.h"

namespace harmonaize::daemon {
namespace {

Requirements Said(const std::string& text) {
  const Result<Requirements> read = ReadStatement(text, "statement");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? *read : Requirements{};
}

TEST(Statements, LaterOnesReplaceEarlierOnesKeyByKey) {
  Statements statements;
  EXPECT_TRUE(statements.empty());
  EXPECT_TRUE(statements.Take(Said("faults.late_after = '9 s'\njob.kind = 'batch'"), {1, 5}));
  EXPECT_TRUE(statements.Take(Said("faults.late_after = '7 s'"), {2, 1}));
  EXPECT_FALSE(statements.Take(Said("faults.late_after = '8 s'"), {1, 9}));
  EXPECT_EQ(statements.All(), Said("faults.late_after = '7 s'\njob.kind = 'batch'"));
  EXPECT_EQ(statements.ByStamp().size(), 2u);
  EXPECT_EQ(statements.Next().number, 3u);
}

TEST(Statements, WhatWasTakenBackDoesNotComeBack) {
  Statements statements;
  statements.Take(Said("job.kind = 'batch'"), {1, 1});
  EXPECT_TRUE(statements.Forget({2, 1}));
  EXPECT_FALSE(statements.Forget({2, 1}));
  EXPECT_EQ(statements.All(), Requirements{});
  EXPECT_FALSE(statements.Take(Said("job.kind = 'batch'"), {1, 1}));
  EXPECT_FALSE(statements.empty()) << "others have to know that it was taken back";
  EXPECT_TRUE(statements.Take(Said("job.kind = 'training'"), statements.Next()));
}

TEST(Statements, TheNextNumberIsOneThatOtherDaemonsTake) {
  for (const uint64_t newest : {kMostStatementNumber - 1, kMostStatementNumber, UINT64_MAX}) {
    Statements said;
    said.Take(Said("job.kind = 'batch'"), {newest, 1});
    EXPECT_EQ(said.Next().number, kMostStatementNumber) << newest;
    Statements forgotten;
    forgotten.Forget({newest, 1});
    EXPECT_EQ(forgotten.Next().number, kMostStatementNumber) << newest;
  }
}

// Hosts that have heard the same statements, in whatever order and however often, agree.
TEST(Statements, AreTheSameInAnyOrder) {
  const std::vector<std::string> documents = {
      "faults.late_after = '9 s'\njob.kind = 'batch'",
      "faults.late_after = '7 s'\ncollectives.inline = false",
      "[[collectives.override]]\ncommunicator = 'a'\ninline = true",
      "[[collectives.override]]\ncommunicator = 'b'\n[collectives]\npriority = 2",
      "collectives.priority = 1\n[[market.launch]]\ncluster = 'x'",
      "faults.give_up_after = '3 min'",
  };
  std::mt19937_64 random(7);
  for (int run = 0; run < (kSanitized ? 60 : 300); ++run) {
    struct Event {
      size_t document;
      StatementStamp stamp;
    };
    std::vector<Event> events;
    for (uint64_t i = 0; i < 8; ++i) {
      // Statements that were made at the same time have the same number.
      events.push_back({random() % (documents.size() + 1), {1 + random() % 4, 1 + i}});
    }
    Statements first;
    Statements second;
    const auto take = [&](Statements* to, const Event& event) {
      if (event.document == documents.size()) {
        to->Forget(event.stamp);
      } else {
        to->Take(Said(documents[event.document]), event.stamp);
      }
    };
    for (const Event& event : events) take(&first, event);
    std::vector<Event> others = events;
    others.insert(others.end(), events.begin(), events.begin() + 3);
    std::shuffle(others.begin(), others.end(), random);
    for (const Event& event : others) take(&second, event);
    EXPECT_EQ(first.All(), second.All());
    // A third one is told of what is left only.
    Statements third;
    third.Forget(second.forgotten());
    for (const auto& [stamp, statement] : second.ByStamp()) third.Take(statement, stamp);
    EXPECT_EQ(third.All(), first.All());
    EXPECT_EQ(second.Digest(), first.Digest());
    EXPECT_EQ(third.Digest(), first.Digest());
  }
}

TEST(Statements, WhatDiffersHasAnotherDigest) {
  Statements some;
  std::set<uint64_t> digests = {some.Digest()};
  const auto is_new = [&] { return digests.insert(some.Digest()).second; };
  some.Take(Said("job.kind = 'batch'"), {1, 5});
  EXPECT_TRUE(is_new());
  some.Take(Said("job.kind = 'batch'"), {1, 5});
  EXPECT_FALSE(is_new());
  some.Take(Said("job.kind = 'batch'"), {1, 6});
  EXPECT_TRUE(is_new()) << "of another statement";
  some.Take(Said("collectives.inline = false"), {1, 6});
  EXPECT_TRUE(is_new());
  some.Take(Said("[[collectives.override]]\ninline = true"), {2, 1});
  EXPECT_TRUE(is_new());
  some.Forget({1, 9});
  EXPECT_TRUE(is_new());
}

TEST(ReadStatement, GivesNumbersThatAllHostsHave) {
  const Requirements read =
      Said("collectives.deadline_us = 333.333333333\nfaults.late_after = '1.23456789 s'");
  const Result<Requirements> again = ParseRequirements(RequirementsText(read), "another host");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, read);
}

}  // namespace
}  // namespace harmonaize::daemon
