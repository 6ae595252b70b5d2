#include "daemon/sources/notice_ledger.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

namespace harmonaize::daemon {
namespace {

using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

constexpr int64_t kNow = 1'700'000'000;

CloudNotice Notice(std::string id, State state = State::kScheduled,
                   std::optional<int64_t> not_before = kNow + 900) {
  CloudNotice notice;
  notice.source = "azure";
  notice.id = std::move(id);
  notice.state = state;
  notice.not_before_seconds = not_before;
  notice.text = "Reboot";
  return notice;
}

PublishedNotices Published(std::vector<CloudNotice> notices, bool id_recurs = false) {
  PublishedNotices published;
  for (CloudNotice& notice : notices) published.Add({std::move(notice), id_recurs});
  EXPECT_EQ(published.doubt, "");
  return published;
}

TEST(NoticeLedger, WhatAppearsIsNewsOnce) {
  NoticeLedger ledger;
  const PublishedNotices published = Published({Notice("a"), Notice("b")});
  EXPECT_EQ(ledger.Update(published, kNow), (std::vector<CloudNotice>{Notice("a"), Notice("b")}));
  EXPECT_TRUE(ledger.Update(published, kNow + 1).empty());
  EXPECT_TRUE(ledger.Update(published, kNow + 2).empty());
}

TEST(NoticeLedger, ChangesAreNewsAndAChangeOfTheTextAloneIsNot) {
  NoticeLedger ledger;
  ledger.Update(Published({Notice("a")}), kNow);
  CloudNotice later = Notice("a", State::kScheduled, kNow + 1800);
  EXPECT_EQ(ledger.Update(Published({later}), kNow), std::vector{later});
  CloudNotice other_text = later;
  other_text.text = "Reboot, as said before";
  EXPECT_TRUE(ledger.Update(Published({other_text}), kNow).empty());
  CloudNotice graver = other_text;
  graver.kind = Kind::kReclaim;
  EXPECT_EQ(ledger.Update(Published({graver}), kNow), std::vector{graver});
}

TEST(NoticeLedger, WhatHasStartedAndIsGoneIsCompleted) {
  NoticeLedger ledger;
  ledger.Update(Published({Notice("a")}), kNow);
  const CloudNotice started = Notice("a", State::kStarted, std::nullopt);
  EXPECT_EQ(ledger.Update(Published({started}), kNow + 900), std::vector{started});
  EXPECT_EQ(ledger.Update(Published({}), kNow + 960),
            std::vector{Notice("a", State::kCompleted, std::nullopt)});
  EXPECT_EQ(ledger.size(), 0u);
  EXPECT_TRUE(ledger.Update(Published({}), kNow + 970).empty());
}

TEST(NoticeLedger, WhatHasStartedDoesNotGoBackToScheduled) {
  NoticeLedger ledger;
  ledger.Update(Published({Notice("a", State::kStarted)}), kNow);
  EXPECT_TRUE(ledger.Update(Published({Notice("a")}), kNow).empty());
  EXPECT_EQ(ledger.Update(Published({}), kNow).at(0).state, State::kCompleted);
}

TEST(NoticeLedger, WhatIsGoneBeforeItsTimeIsWithdrawnAndAfterItCompleted) {
  NoticeLedger ledger;
  ledger.Update(Published({Notice("a")}), kNow);
  EXPECT_EQ(ledger.Update(Published({}), kNow + 899).at(0).state, State::kWithdrawn);
  ledger.Update(Published({Notice("b")}), kNow);
  EXPECT_EQ(ledger.Update(Published({}), kNow + 900).at(0).state, State::kCompleted);
}

TEST(NoticeLedger, WhatWasApprovedAndIsGoneBeforeItsTimeIsCompleted) {
  NoticeLedger ledger;
  ledger.Update(Published({Notice("a"), Notice("b")}), kNow);
  ledger.SetApproved("b");
  ledger.SetApproved("no such notice");
  const std::vector<CloudNotice> news = ledger.Update(Published({}), kNow + 1);
  ASSERT_EQ(news.size(), 2u);
  EXPECT_EQ(news[0].state, State::kWithdrawn);
  EXPECT_EQ(news[1].state, State::kCompleted);
}

TEST(NoticeLedger, WithoutATimeTheSourceDecidesWhatAMissingNoticeHasBecome) {
  NoticeLedger ledger;
  ledger.Update(Published({Notice("a", State::kScheduled, std::nullopt)}), kNow);
  EXPECT_EQ(ledger.Update({}, kNow).at(0).state, State::kWithdrawn);
  ledger.Update(Published({Notice("a", State::kScheduled, std::nullopt)}), kNow);
  PublishedNotices nothing;
  nothing.missing = State::kCompleted;
  EXPECT_EQ(ledger.Update(nothing, kNow).at(0).state, State::kCompleted);
}

TEST(NoticeLedger, WhatTheSourceSaysOfAnEndGoesBeforeEverythingElse) {
  NoticeLedger ledger;
  ledger.Update(Published({Notice("a"), Notice("b")}), kNow);
  PublishedNotices ended;
  ended.ended = {{"a", State::kCompleted}, {"b", State::kWithdrawn}, {"c", State::kCompleted}};
  const std::vector<CloudNotice> news = ledger.Update(ended, kNow + 5000);
  ASSERT_EQ(news.size(), 2u);
  EXPECT_EQ(news[0].state, State::kCompleted);
  EXPECT_EQ(news[1].state, State::kWithdrawn);
}

TEST(NoticeLedger, NothingIsGoneWhileThereIsADoubtUnlessTheSourceSaysSo) {
  NoticeLedger ledger;
  ledger.Update(Published({Notice("a"), Notice("b")}), kNow);
  PublishedNotices unclear = Published({Notice("c")});
  unclear.Doubt("something");
  unclear.ended = {{"b", State::kWithdrawn}};
  const std::vector<CloudNotice> news = ledger.Update(unclear, kNow + 5000);
  ASSERT_EQ(news.size(), 2u);
  EXPECT_EQ(news[0], Notice("b", State::kWithdrawn));
  EXPECT_EQ(news[1], Notice("c"));
  EXPECT_NE(ledger.Find("a"), nullptr);
  EXPECT_EQ(ledger.Find("b"), nullptr);
}

TEST(NoticeLedger, AnIdThatRecursGetsTheTimeAtWhichItWasFirstSeen) {
  NoticeLedger ledger;
  const PublishedNotices published = Published({Notice("preempted")}, true);
  EXPECT_EQ(ledger.Update(published, kNow).at(0).id, "preempted/1700000000");
  EXPECT_TRUE(ledger.Update(published, kNow + 7).empty());
  EXPECT_NE(ledger.Find("preempted/1700000000"), nullptr);
  EXPECT_EQ(ledger.Update({}, kNow + 8).at(0).id, "preempted/1700000000");
  EXPECT_EQ(ledger.Update(published, kNow + 9).at(0).id, "preempted/1700000009");
}

TEST(NoticeLedger, NoTwoNoticesHaveOneIdThoughOneRecurs) {
  NoticeLedger ledger;
  ledger.Update(Published({Notice("spot-action/1700000000")}), kNow - 1);
  PublishedNotices both = Published({Notice("spot-action/1700000000")});
  both.Add({Notice("spot-action"), true});
  EXPECT_TRUE(ledger.Update(both, kNow).empty());
  EXPECT_EQ(ledger.left_out(), 1u);
  EXPECT_EQ(ledger.Update(both, kNow + 1).at(0).id, "spot-action/1700000001");
}

TEST(NoticeLedger, HoldsNoMoreThanItsLimitAndSaysHowManyItLeftOut) {
  NoticeLedger ledger;
  std::vector<CloudNotice> first;
  for (size_t i = 0; i < kMostNoticesOfASource; ++i) first.push_back(Notice(fmt::format("a{}", i)));
  EXPECT_EQ(ledger.Update(Published(first), kNow).size(), kMostNoticesOfASource);
  PublishedNotices others = Published({Notice("b"), Notice("c")});
  others.Doubt("so that the first ones stay");
  EXPECT_TRUE(ledger.Update(others, kNow).empty());
  EXPECT_EQ(ledger.left_out(), 2u);
  EXPECT_EQ(ledger.size(), kMostNoticesOfASource);
  others.doubt.clear();
  EXPECT_EQ(ledger.Update(others, kNow).size(), kMostNoticesOfASource + 2);
  EXPECT_EQ(ledger.left_out(), 0u);
  EXPECT_EQ(ledger.size(), 2u);
}

TEST(PublishedNotices, NoticesThatAreTooManyOrHaveNoProperIdLeaveADoubt) {
  for (const std::string& id : {std::string(), std::string("a b"), std::string("a\nb"),
                                std::string("\xc3\xa9"), std::string(200, 'a')}) {
    PublishedNotices published;
    published.Add({Notice(id)});
    EXPECT_TRUE(published.notices.empty()) << id;
    EXPECT_NE(published.doubt, "") << id;
  }
  PublishedNotices twice;
  twice.Add({Notice("a")});
  twice.Add({Notice("a")});
  EXPECT_EQ(twice.notices.size(), 1u);
  EXPECT_NE(twice.doubt, "");
  PublishedNotices many;
  for (size_t i = 0; i <= kMostNoticesOfASource; ++i) many.Add({Notice(fmt::format("a{}", i))});
  EXPECT_EQ(many.notices.size(), kMostNoticesOfASource);
  EXPECT_NE(many.doubt, "");
}

TEST(PublishedNotices, TextsAreOneCleanLine) {
  PublishedNotices published;
  CloudNotice notice = Notice("a");
  notice.text = "first\nsecond\x1b[2J" + std::string(1000, 'x');
  published.Add({notice});
  const std::string& text = published.notices.at(0).notice.text;
  EXPECT_LE(text.size(), kMostNoticeTextBytes);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  published.Doubt("a\tb");
  published.Doubt("another");
  EXPECT_EQ(published.doubt,
            "a\xef\xbf\xbd"
            "b");
}

}  // namespace
}  // namespace harmonaize::daemon
