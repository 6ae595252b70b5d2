#include "daemon/promises/promise_book.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <numeric>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "daemon/host/host_limits.h"
#include "daemon/job_events/notice_events.h"
#include "daemon/jobs/job_table.h"
#include "daemon/runtime/background.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/json_text.h"
#include "src/base/log.h"
#include "src/base/wall_clock.h"
#include "src/events/event_data.h"

namespace harmonaize::daemon {
namespace {

using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

const TenantIdentity kAlice{1000, 1000, 1000, "uid 1000"};
const TenantIdentity kBob{1001, 1001, 1001, "uid 1001"};

JobIdentity JobNumbered(int number) {
  JobIdentity id;
  id.bytes.fill(1);
  id.bytes[0] = static_cast<uint8_t>(number);
  id.bytes[1] = static_cast<uint8_t>(number >> 8);
  return id;
}

int64_t SecondsFromNow(double seconds) {
  return static_cast<int64_t>(UnixSeconds() + seconds);
}

CloudNotice Maintenance(std::string id, State state, double in_seconds) {
  return {.source = "operator",
          .id = std::move(id),
          .kind = Kind::kMaintenance,
          .state = state,
          .not_before_seconds = SecondsFromNow(in_seconds)};
}

class PromiseBookTest : public ::testing::Test {
 protected:
  PromiseBookTest()
      : tenants_(std::make_shared<Accounts>(LimitsOfHost(Config(), CapacityOfHost())), {}) {
    std::string folder = ::testing::TempDir() + "promises.XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    SetLog(LogLevel::kError, kLogAll, nullptr);
    Begin();
  }
  ~PromiseBookTest() override {
    End();
    SetLog(LogLevel::kWarning, kLogAll, nullptr);
    std::filesystem::remove_all(folder_);
  }

  /// Begins the life of a daemon.
  void Begin() {
    background_.emplace();
    Result<std::unique_ptr<RecordKeeper>> keeper =
        RecordKeeper::Open(folder_ + "/promises.sqlite3", &*background_);
    ASSERT_TRUE(keeper.ok()) << keeper.status().message();
    keeper_ = std::move(*keeper);
    book_.emplace(keeper_.get());
    book_->Restore();
  }
  /// Ends it; what was noted is on the disk.
  void End() {
    if (keeper_ != nullptr) keeper_->Flush();
    book_.reset();
    background_.reset();
    keeper_.reset();
  }

  Job& JobOf(const TenantIdentity& tenant, int number) {
    return *jobs_.Of(JobNumbered(number), tenants_.Of(tenant), {});
  }
  /// Tells the job of the notice, and returns the event.
  Event Tell(Job& job, const CloudNotice& notice, const std::vector<int32_t>& ranks,
             bool here = true) {
    const std::optional<JobEvents::News> news = NewsOf(notice, ranks);
    EXPECT_TRUE(news.has_value());
    const Event event{.job = job.id.text(),
                      .unique = ++last_unique_,
                      .type = news->type,
                      .data = *std::get<EventData>(news->data).Finish()};
    book_->OnTold(job, event, here);
    return event;
  }
  Event TellOfPromise(Job& job, const CloudNotice& notice, const std::vector<int32_t>& ranks) {
    const uint64_t promise = book_->Note(notice);
    Event event = Tell(job, notice, ranks);
    book_->Assign(job, event.unique, promise, ranks);
    return event;
  }
  /// An answer as another daemon tells of it.
  void HearAnswer(const Job& job, const std::string& event_id, int64_t asked_until_seconds) {
    EventData data(EventType::kNoticeAnswered, "it is answered");
    data.Set(fields::kEvent, event_id)
        .Set(fields::kAnswer, asked_until_seconds == 0 ? "acknowledged" : "more_time");
    if (asked_until_seconds != 0) {
      data.Set(fields::kAskedUntil, asked_until_seconds * 1'000'000'000);
    }
    book_->OnTold(job,
                  {.job = job.id.text(),
                   .unique = ++last_unique_,
                   .type = EventType::kNoticeAnswered,
                   .data = *data.Finish()},
                  false);
  }

  std::string folder_;
  TenantTable tenants_;
  JobTable jobs_;
  uint64_t last_unique_ = 100;
  std::optional<Background> background_;
  std::unique_ptr<RecordKeeper> keeper_;
  std::optional<PromiseBook> book_;
};

TEST_F(PromiseBookTest, RemembersOverALifeWhatWasPromisedAndKept) {
  Job& job = JobOf(kAlice, 1);
  const Event event = TellOfPromise(job, Maintenance("m1", State::kScheduled, 100), {0, 2});
  book_->Note(Maintenance("m2", State::kScheduled, -5));
  book_->Note(Maintenance("m2", State::kStarted, -5));
  book_->Answer(*book_->Find(kAlice, event.id()), 0, 77);
  End();
  Begin();
  ASSERT_EQ(book_->promises().size(), 2u);
  EXPECT_EQ(book_->promises()[0].id, "m1");
  EXPECT_EQ(book_->promises()[0].kept(), std::nullopt);
  EXPECT_EQ(book_->promises()[1].kept(), true);
  const ToldNotice* const told = book_->Find(kAlice, event.id());
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->acknowledged_seconds, 77);
  EXPECT_EQ(told->ranks, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(told->promise, book_->promises()[0].number);
  // What begins now is too early for what was promised before.
  book_->Note(Maintenance("m1", State::kStarted, 100));
  EXPECT_EQ(book_->promises()[0].kept(), false);
}

TEST_F(PromiseBookTest, AnEarlierTimeDoesNotTakeAPromiseBack) {
  book_->Note(Maintenance("m", State::kScheduled, 1000));
  const double promised = book_->promises()[0].promised_from_seconds;
  book_->Note(Maintenance("m", State::kScheduled, 10));
  EXPECT_EQ(book_->promises()[0].promised_from_seconds, promised);
  EXPECT_EQ(book_->promises()[0].kept(), false) << "it is to begin before its time";
  End();
  Begin();
  EXPECT_EQ(book_->promises()[0].kept(), false);
  book_->Note(Maintenance("m", State::kScheduled, 2000));
  EXPECT_GT(book_->promises()[0].promised_from_seconds, promised);
  EXPECT_EQ(book_->promises()[0].kept(), std::nullopt);
  book_->Note(Maintenance("m", State::kScheduled, 10));
  book_->Note(Maintenance("m", State::kWithdrawn, 10));
  EXPECT_EQ(book_->promises()[0].kept(), std::nullopt) << "it was called off";
  EXPECT_EQ(book_->promises().size(), 1u);
}

TEST_F(PromiseBookTest, WhatBeginsEarlyWhenNobodyIsLeftIsKept) {
  book_->Note(Maintenance("m", State::kScheduled, 1000));
  book_->NoteNobodyLeft("operator", "m");
  book_->Note(Maintenance("m", State::kStarted, 1000));
  EXPECT_EQ(book_->promises()[0].kept(), true);
}

TEST_F(PromiseBookTest, AnIdThatIsUsedAgainIsAnotherPromise) {
  book_->Note(Maintenance("m", State::kScheduled, 100));
  book_->Note(Maintenance("m", State::kWithdrawn, 100));
  book_->Note(Maintenance("m", State::kScheduled, 100));
  ASSERT_EQ(book_->promises().size(), 2u);
  EXPECT_TRUE(book_->promises()[0].withdrawn);
  EXPECT_FALSE(book_->promises()[1].withdrawn);
}

TEST_F(PromiseBookTest, FindsATenantsOwnEventsAlone) {
  const Event event =
      TellOfPromise(JobOf(kAlice, 1), Maintenance("m", State::kScheduled, 100), {0});
  EXPECT_NE(book_->Find(kAlice, event.id()), nullptr);
  EXPECT_EQ(book_->Find(kBob, event.id()), nullptr);
  EXPECT_EQ(book_->Find({}, event.id()), nullptr);
  EXPECT_EQ(book_->Find(kAlice, "no id"), nullptr);
  EXPECT_EQ(book_->Find(kAlice, JobNumbered(2).text() + ".0000000000000065"), nullptr);
}

TEST_F(PromiseBookTest, TakesAnswersOfOtherDaemonsForTheSameJobAlone) {
  Job& job = JobOf(kAlice, 1);
  const Event event = TellOfPromise(job, Maintenance("m", State::kScheduled, 100), {0});
  int heard = 0;
  book_->SetListener([&](const ToldNotice&) { ++heard; });
  HearAnswer(JobOf(kBob, 1), event.id(), 0);
  HearAnswer(JobOf(kAlice, 2), event.id(), 0);
  HearAnswer(job, "nonsense", 0);
  EXPECT_EQ(book_->Find(kAlice, event.id())->acknowledged_seconds, 0);
  EXPECT_EQ(heard, 0);
  const int64_t until = SecondsFromNow(700);
  HearAnswer(job, event.id(), until);
  EXPECT_EQ(book_->Find(kAlice, event.id())->asked_until_seconds, static_cast<double>(until));
  HearAnswer(job, event.id(), 0);
  EXPECT_GT(book_->Find(kAlice, event.id())->acknowledged_seconds, 0);
  EXPECT_EQ(heard, 2);
}

TEST_F(PromiseBookTest, ANewTimeTakesThePlaceOfWhatTheJobWasToldBefore) {
  Job& job = JobOf(kAlice, 1);
  const Event before = TellOfPromise(job, Maintenance("m", State::kScheduled, 100), {0});
  const Event after = TellOfPromise(job, Maintenance("m", State::kScheduled, 200), {0});
  EXPECT_EQ(book_->Find(kAlice, before.id())->replaced_by, after.unique);
  const std::vector<const ToldNotice*> told = book_->ToldOf(book_->promises()[0].number);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0]->unique, after.unique);
}

TEST_F(PromiseBookTest, ForgetsWhatBeganElsewhereWithTheDaemon) {
  const Event event = Tell(JobOf(kAlice, 1), Maintenance("m", State::kScheduled, 100), {0}, false);
  EXPECT_NE(book_->Find(kAlice, event.id()), nullptr);
  End();
  Begin();
  EXPECT_EQ(book_->Find(kAlice, event.id()), nullptr);
}

TEST_F(PromiseBookTest, ATenantWithManyJobsTakesNoMoreThanItsPart) {
  const CloudNotice notice = Maintenance("m", State::kScheduled, 1000);
  const Event bobs = TellOfPromise(JobOf(kBob, 1), notice, {0});
  std::vector<int32_t> ranks(1000);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<Event> events;
  for (int i = 0; i < 300; ++i) {
    events.push_back(TellOfPromise(JobOf(kAlice, i), notice, ranks));
  }
  EXPECT_EQ(book_->told().size(), PromiseBook::kMostToldOfTenant + 1);
  EXPECT_NE(book_->Find(kBob, bobs.id()), nullptr);
  EXPECT_EQ(book_->Find(kAlice, events.front().id()), nullptr) << "the oldest goes";
  const ToldNotice* const last = book_->Find(kAlice, events.back().id());
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->ranks.size(), kMostKeptRanks);
  EXPECT_EQ(last->ranks_unlisted, 1000 - kMostKeptRanks);
  End();
  Begin();
  EXPECT_EQ(book_->told().size(), PromiseBook::kMostToldOfTenant + 1);
}

TEST_F(PromiseBookTest, GivesUpTheOldestPromiseWithItsJobs) {
  const Event event =
      TellOfPromise(JobOf(kAlice, 1), Maintenance("m0", State::kScheduled, 100), {0});
  for (size_t i = 1; i <= PromiseBook::kMostPromises; ++i) {
    book_->Note(Maintenance("m" + std::to_string(i), State::kScheduled, 100));
  }
  EXPECT_EQ(book_->promises().size(), PromiseBook::kMostPromises);
  EXPECT_EQ(book_->promises().front().id, "m1");
  EXPECT_EQ(book_->Find(kAlice, event.id()), nullptr);
}

TEST_F(PromiseBookTest, WhatIsUnhealthyIsAnsweredAndPromisesNothing) {
  CloudNotice sick = Maintenance("sick", State::kScheduled, 100);
  sick.kind = Kind::kUnhealthy;
  const Event event = TellOfPromise(JobOf(kAlice, 1), sick, {0});
  sick.state = State::kStarted;
  const uint64_t number = book_->Note(sick);
  ASSERT_EQ(book_->ToldOf(number).size(), 1u);
  EXPECT_EQ(book_->ToldOf(number)[0]->unique, event.unique);
  EXPECT_TRUE(book_->FindPromise(number)->is_empty());
  EXPECT_EQ(book_->FindPromise(number)->began_seconds, 0) << "it can be answered still";
  EXPECT_EQ(book_->FindPromise(number)->kept(), std::nullopt);
  CloudNotice risk = sick;
  risk.kind = Kind::kRiskOfReclaim;
  EXPECT_EQ(book_->Note(risk), 0u);
}

TEST_F(PromiseBookTest, HealthThatComesAndGoesPushesNoPromiseOut) {
  const uint64_t promise = book_->Note(Maintenance("m", State::kScheduled, 100));
  for (size_t i = 0; i < 2 * PromiseBook::kMostPromises; ++i) {
    CloudNotice sick = Maintenance("sick-" + std::to_string(i), State::kScheduled, 0);
    sick.kind = Kind::kUnhealthy;
    book_->Note(sick);
    sick.state = State::kCompleted;
    book_->Note(sick);
  }
  EXPECT_NE(book_->FindPromise(promise), nullptr);
  EXPECT_EQ(book_->promises().size(), PromiseBook::kMostPromises);
}

TEST_F(PromiseBookTest, RemovesRecordsThatItHasNotMade) {
  keeper_->Put({kPromiseRecord, "1", "{}"});
  keeper_->Put({kPromiseRecord, "2", "no json"});
  keeper_->Put({kToldRecord, "3", R"({"job": 5, "unique": -1, "ranks": [1e300]})"});
  End();
  Begin();
  EXPECT_TRUE(book_->promises().empty());
  EXPECT_TRUE(book_->told().empty());
  End();
  Begin();
  EXPECT_TRUE(keeper_->found().empty());
}

TEST(PromiseRecords, AreReadAsTheyWereWritten) {
  const Promise promise{.number = 3,
                        .source = "azure",
                        .id = "x",
                        .kind = Kind::kReclaim,
                        .announced_seconds = 1.5,
                        .promised_from_seconds = 10,
                        .announced_for_seconds = 9,
                        .began_seconds = 11,
                        .ended_seconds = 12,
                        .withdrawn = true,
                        .nobody_left = true};
  EXPECT_EQ(PromiseIn(RecordOf(promise)), promise);
  CloudNotice notice = Maintenance("m", State::kStarted, 0);
  notice.duration_seconds = 60;
  notice.survives = true;
  notice.text = "disks \xff";
  std::optional<CloudNotice> read = NoticeIn(RecordOf(notice));
  ASSERT_TRUE(read.has_value());
  read->text = notice.text;  // It was no UTF-8.
  EXPECT_EQ(*read, notice);
  Record moved = RecordOf(promise);
  moved.key = "0000000000000004";
  EXPECT_EQ(PromiseIn(moved), std::nullopt);
  // An earlier daemon kept less.
  nlohmann::json object = ReadJson(RecordOf(promise).text);
  object.erase("announced_for");
  Promise earlier = promise;
  earlier.announced_for_seconds = 0;
  EXPECT_EQ(PromiseIn({kPromiseRecord, RecordOf(promise).key, JsonText(object)}), earlier);
}

}  // namespace
}  // namespace harmonaize::daemon
