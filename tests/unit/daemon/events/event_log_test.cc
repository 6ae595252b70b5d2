#include "daemon/events/event_log.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <random>

#include "daemon/events/event_log_store.h"
#include "tests/support/sanitized.h"
#include "tests/unit/daemon/events/log_testing.h"

namespace harmonaize::daemon {
namespace {

constexpr int64_t kDay = 86400;

TEST_F(EventLogTest, GivesBackWhatWasAppended) {
  ASSERT_TRUE(OpenLog().ok());
  for (uint64_t i = 1; i <= 100; ++i) {
    const Result<uint64_t> place = log_->Append(MakeEvent(i % 2 == 0 ? "a" : "", (i + 1) / 2));
    ASSERT_TRUE(place.ok()) << place.status().message();
    EXPECT_EQ(*place, i);
  }
  for (const bool reopened : {false, true}) {
    if (reopened) {
      ASSERT_TRUE(OpenLog().ok());
    }
    EXPECT_EQ(log_->last_place(), 100);
    EXPECT_EQ(log_->LastSequence("a"), 50);
    EXPECT_EQ(log_->LastSequence(""), 50);
    EXPECT_EQ(log_->LastSequence("b"), 0);
    const ReadToEnd all = ReadAll(*log_, 0, {}, 7);
    ASSERT_EQ(all.events.size(), 100);
    EXPECT_EQ(all.missed, 0);
    EXPECT_EQ(all.place, 100);
    for (uint64_t i = 1; i <= 100; ++i) {
      EXPECT_EQ(all.events[i - 1].place, i);
      ExpectSame(all.events[i - 1].event, MakeEvent(i % 2 == 0 ? "a" : "", (i + 1) / 2));
    }
  }
}

TEST_F(EventLogTest, RefusesAnEventThatCannotBeKept) {
  ASSERT_TRUE(OpenLog().ok());
  const auto refused = [&](Event event) { return log_->Append(event).status().code(); };
  EXPECT_EQ(refused(MakeEvent("host", 1)), Code::kInvalidArgument);
  EXPECT_EQ(refused(MakeEvent("a/b", 1)), Code::kInvalidArgument);
  EXPECT_EQ(refused(MakeEvent(std::string(129, 'a'), 1)), Code::kInvalidArgument);
  EXPECT_EQ(refused(MakeEvent("a", 0)), Code::kInvalidArgument);
  EXPECT_EQ(refused(MakeEvent("a", kMostSequence + 1)), Code::kInvalidArgument);
  EXPECT_EQ(refused(MakeEvent("a", 1, kMostEventDataBytes)), Code::kInvalidArgument);
  Event event = MakeEvent("a", 1);
  event.subject = std::string(kMostSubjectBytes + 1, 's');
  EXPECT_EQ(refused(event), Code::kInvalidArgument);
  EXPECT_EQ(log_->last_place(), 0);
  EXPECT_EQ(log_->LastSequence("a"), 0);
}

TEST_F(EventLogTest, RefusesANumberThatIsNotAboveTheLastOfItsJob) {
  ASSERT_TRUE(OpenLog({.most_seconds = 10}).ok());
  for (int i = 0; i < 3; ++i) AppendNext("a");
  for (const bool reopened : {false, true}) {
    if (reopened) {
      ASSERT_TRUE(OpenLog({.most_seconds = 10}).ok());
    }
    for (const uint64_t sequence : {1, 2, 3}) {
      EXPECT_EQ(log_->Append(MakeEvent("a", sequence)).status().code(), Code::kInvalidUsage);
    }
  }
  EXPECT_EQ(log_->last_place(), 3);
  // Also where the event itself has been given up.
  now_seconds_ += 20;
  ASSERT_TRUE(OpenLog({.most_seconds = 10}).ok());
  EXPECT_TRUE(ReadAll(*log_, 3).events.empty());
  EXPECT_EQ(log_->Append(MakeEvent("a", 3)).status().code(), Code::kInvalidUsage);
  EXPECT_TRUE(log_->Append(MakeEvent("a", 4)).ok());
  EXPECT_EQ(log_->last_place(), 4);
}

TEST_F(EventLogTest, ListsWhatTheFilterTakesAndGoesOnBehindTheRest) {
  ASSERT_TRUE(OpenLog().ok());
  for (int i = 0; i < 300; ++i) AppendNext(i % 3 == 0 ? "rare" : "often");
  const EventFilter filter{.types = {"rank.*"}, .job = "rare"};
  const ReadToEnd found = ReadAll(*log_, 0, filter, 2);
  uint64_t expected = 0;
  for (uint64_t sequence = 1; sequence <= 100; ++sequence) {
    const Event event = MakeEvent("rare", sequence);
    if (!InfoOf(event.type).name.starts_with("rank.")) continue;
    ASSERT_LT(expected, found.events.size());
    ExpectSame(found.events[expected++].event, event);
  }
  EXPECT_EQ(found.events.size(), expected);
  EXPECT_EQ(found.place, 300);
  EXPECT_EQ(found.missed, 0);
  const Result<LogPage> none = log_->After({0}, {}, 0);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->place, 0);
  EXPECT_TRUE(none->more);
}

TEST_F(EventLogTest, LooksAtABoundedNumberOfEvents) {
  ASSERT_TRUE(OpenLog().ok());
  const int events = 2 * kMostEventsOfReading + 100;
  for (int i = 0; i < events; ++i) AppendNext("a");
  uint64_t place = 0;
  for (const uint64_t expected : {kMostEventsOfReading, 2 * kMostEventsOfReading, events}) {
    const Result<LogPage> page = log_->After({place}, {.job = "b"}, 10);
    ASSERT_TRUE(page.ok());
    EXPECT_EQ(page->place, expected);
    EXPECT_EQ(page->more, expected != static_cast<uint64_t>(events));
    place = page->place;
  }
}

TEST_F(EventLogTest, GivesUpTheOldestWhenItIsFull) {
  const EventRetention retention{.most_bytes = 512 << 10};
  ASSERT_TRUE(OpenLog(retention).ok());
  uint64_t last_kept = 0;
  for (int i = 1; i <= 6000; ++i) {
    AppendNext(i % 5 == 0 ? "a" : "b", i % 400);
    if (i % 500 != 0) continue;
    const ReadToEnd all = ReadAll(*log_, 0);
    EXPECT_EQ(all.missed + all.events.size(), i);
    // What is kept is the newest, without a gap.
    ASSERT_FALSE(all.events.empty());
    EXPECT_EQ(all.events.front().place, all.missed + 1);
    EXPECT_EQ(all.events.back().place, i);
    last_kept = all.events.size();
  }
  // Most of the file holds events.
  EXPECT_GT(last_kept, 500);
  log_.reset();
  EXPECT_LE(std::filesystem::file_size(path()), 512 << 10);
  ASSERT_TRUE(OpenLog(retention).ok());
  EXPECT_EQ(ReadAll(*log_, 0).events.size(), last_kept);
  EXPECT_EQ(log_->LastSequence("a"), 1200);
  EXPECT_EQ(log_->LastSequence("b"), 4800);
}

TEST_F(EventLogTest, FindsRoomForTheLargestEventsAmongTheSmallest) {
  ASSERT_TRUE(OpenLog({.most_bytes = kLeastLogBytes}).ok());
  for (int i = 0; i < 3000; ++i) AppendNext("small");
  for (int i = 0; i < 50; ++i) {
    AppendNext("large", kMostEventDataBytes - 200);
    const ReadToEnd all = ReadAll(*log_, log_->last_place() - 1);
    ASSERT_EQ(all.events.size(), 1);
    EXPECT_EQ(all.events[0].event.job, "large");
  }
  log_.reset();
  EXPECT_LE(std::filesystem::file_size(path()), kLeastLogBytes);
}

TEST_F(EventLogTest, ShortensAFileThatMayKeepLessThanBefore) {
  ASSERT_TRUE(OpenLog({.most_bytes = 4 << 20}).ok());
  for (int i = 0; i < 4000; ++i) AppendNext("a", 500);
  log_.reset();
  EXPECT_GT(std::filesystem::file_size(path()), 2 << 20);
  ASSERT_TRUE(OpenLog({.most_bytes = kLeastLogBytes}).ok());
  for (int i = 0; i < 200; ++i) AppendNext("a", 500);
  const ReadToEnd all = ReadAll(*log_, 0);
  EXPECT_EQ(all.missed + all.events.size(), 4200);
  EXPECT_EQ(all.events.back().place, 4200);
  log_.reset();
  EXPECT_LE(std::filesystem::file_size(path()), kLeastLogBytes);
}

TEST_F(EventLogTest, GivesUpWhatIsTooOld) {
  ASSERT_TRUE(OpenLog({.most_seconds = 7 * kDay}).ok());
  for (int day = 0; day < 20; ++day) {
    for (int i = 0; i < 10; ++i) AppendNext("a");
    const ReadToEnd all = ReadAll(*log_, 0);
    // The day's own events, and those of the seven days before.
    const int days = std::min(day, 7) + 1;
    EXPECT_EQ(all.events.size(), 10 * days) << "day " << day;
    EXPECT_EQ(all.missed, 10 * (day + 1 - days)) << "day " << day;
    now_seconds_ += kDay;
  }
}

TEST_F(EventLogTest, GivesUpWhatHasGrownOldWhileItWasClosed) {
  ASSERT_TRUE(OpenLog({.most_seconds = kDay}).ok());
  for (int i = 0; i < 10; ++i) AppendNext("a");
  now_seconds_ += 2 * kDay;
  ASSERT_TRUE(OpenLog({.most_seconds = kDay}).ok());
  const ReadToEnd all = ReadAll(*log_, 0);
  EXPECT_TRUE(all.events.empty());
  EXPECT_EQ(all.missed, 10);
  EXPECT_EQ(log_->LastSequence("a"), 10);
  ASSERT_TRUE(OpenLog({.most_seconds = kDay}).ok());
  EXPECT_EQ(log_->last_place(), 10) << "places go on though nothing is kept";
  AppendNext("a");
  EXPECT_EQ(log_->last_place(), 11);
}

TEST_F(EventLogTest, KeepsEventsWhenTheClockIsSetBack) {
  ASSERT_TRUE(OpenLog({.most_seconds = kDay}).ok());
  AppendNext("a");
  now_seconds_ -= 30 * kDay;
  for (int i = 0; i < 10; ++i) AppendNext("a");
  EXPECT_EQ(ReadAll(*log_, 0).events.size(), 11);
}

// ---------------------------------------------------------------------------------------------
// Resuming

TEST_F(EventLogTest, ResumesBehindEveryPlace) {
  ASSERT_TRUE(OpenLog({.most_bytes = kLeastLogBytes}).ok());
  for (int i = 0; i < 900; ++i) AppendNext(i % 2 == 0 ? "a" : "b", 200);
  const uint64_t front = ReadAll(*log_, 0).events.front().place;
  ASSERT_GT(front, 1) << "some are given up";
  for (uint64_t place = 0; place <= 900; ++place) {
    const ReadToEnd rest = ReadAll(*log_, place, {}, 1000);
    EXPECT_EQ(rest.events.size() + rest.missed, 900 - place);
    EXPECT_EQ(rest.missed, place < front ? front - 1 - place : 0);
    if (!rest.events.empty()) {
      EXPECT_EQ(rest.events.front().place, std::max(front, place + 1));
    }
  }
}

TEST_F(EventLogTest, TakesAPlaceItHasNotReachedForOneOfAnEarlierLog) {
  ASSERT_TRUE(OpenLog().ok());
  for (int i = 0; i < 5; ++i) AppendNext("a");
  for (const uint64_t place : {uint64_t{6}, uint64_t{1} << 60, UINT64_MAX}) {
    const ReadToEnd all = ReadAll(*log_, place);
    EXPECT_EQ(all.events.size(), 5);
    EXPECT_EQ(all.missed, 0);
    EXPECT_EQ(all.place, 5);
  }
}

TEST_F(EventLogTest, ResumesAfterEveryIdAndCountsWhatWasMissedOfItsJob) {
  const EventRetention retention{.most_bytes = kLeastLogBytes};
  ASSERT_TRUE(OpenLog(retention).ok());
  const std::vector<std::string> jobs = {"a", "b", "c.1", ""};
  for (int i = 0; i < 1200; ++i) AppendNext(jobs[i % 7 == 0 ? 0 : i % 4], 200);
  for (const bool reopened : {false, true}) {
    if (reopened) {
      ASSERT_TRUE(OpenLog(retention).ok());
    }
    const ReadToEnd kept = ReadAll(*log_, ReadAll(*log_, 0).missed);
    for (const std::string& job : jobs) {
      std::vector<uint64_t> kept_sequences;
      for (const LoggedEvent& logged : kept.events) {
        if (logged.event.job == job) kept_sequences.push_back(logged.event.sequence);
      }
      const uint64_t last = log_->LastSequence(job);
      ASSERT_GT(kept_sequences.front(), 1) << "some are given up";
      for (uint64_t sequence = 1; sequence <= last; ++sequence) {
        const Result<LogPage> from = log_->AfterNumber({job, sequence});
        ASSERT_TRUE(from.ok()) << from.status().message();
        ReadToEnd rest = ReadAll(*log_, from->place, {.job = job}, 1000);
        // A filter has no word for the host's events alone.
        std::erase_if(rest.events, [&](const LoggedEvent& one) { return one.event.job != job; });
        EXPECT_EQ(rest.missed, 0) << "what is given up is told once";
        EXPECT_EQ(rest.events.size() + from->missed, last - sequence) << job << sequence;
        if (!rest.events.empty()) {
          EXPECT_EQ(rest.events.front().event.sequence,
                    std::max(sequence + 1, kept_sequences.front()));
        }
        // Nothing of another job that came later is left out.
        const ReadToEnd all = ReadAll(*log_, from->place, {}, 1000);
        if (sequence + 1 < kept_sequences.front()) {
          EXPECT_EQ(all.events.size(), kept.events.size());
        }
      }
    }
  }
}

TEST_F(EventLogTest, KnowsWhichIdsItHasNeverHeardOf) {
  ASSERT_TRUE(OpenLog().ok());
  for (int i = 0; i < 5; ++i) AppendNext("a");
  for (const EventNumber& id : {EventNumber{"a", 6}, EventNumber{"a", 0}, EventNumber{"b", 1},
                                EventNumber{"", 1}, EventNumber{"a", 1u << 30}}) {
    EXPECT_EQ(log_->AfterNumber(id).status().code(), Code::kInvalidArgument)
        << id.job << id.sequence;
  }
  EXPECT_TRUE(log_->AfterNumber({"a", 5}).ok());
}

TEST_F(EventLogTest, RemembersTheLastNumbersOfManyJobsAndNotOfAll) {
  const EventRetention retention{.most_seconds = 10};
  ASSERT_TRUE(OpenLog(retention).ok());
  const int jobs = kMostSilentJobs + 500;
  for (int i = 0; i < jobs; ++i) {
    AppendNext("job" + std::to_string(i));
    AppendNext("job" + std::to_string(i));
    now_seconds_ += 1;
  }
  now_seconds_ += 100;
  AppendNext("last");
  ASSERT_TRUE(OpenLog(retention).ok());
  // Up to a batch, the ones that have been silent for the longest time are forgotten.
  EXPECT_EQ(log_->LastSequence("job0"), 0);
  EXPECT_EQ(log_->AfterNumber({"job0", 1}).status().code(), Code::kInvalidArgument);
  for (int i = jobs - kMostSilentJobs + 10; i < jobs; ++i) {
    EXPECT_EQ(log_->LastSequence("job" + std::to_string(i)), 2) << i;
  }
  const Result<LogPage> missed = log_->AfterNumber({"job" + std::to_string(jobs - 1), 1});
  ASSERT_TRUE(missed.ok());
  EXPECT_EQ(missed->missed, 1);
}

TEST_F(EventLogTest, FindsJobsByTheBeginningsOfTheirIds) {
  ASSERT_TRUE(OpenLog().ok());
  for (const char* const job : {"aa", "ab~", "ab", "b", ""}) AppendNext(job);
  const auto beginning = [&](const std::string& text, size_t most) {
    const Result<std::vector<std::string>> jobs = log_->JobsBeginning(text, most);
    EXPECT_TRUE(jobs.ok()) << jobs.status().message();
    return jobs.ok() ? *jobs : std::vector<std::string>();
  };
  using Jobs = std::vector<std::string>;
  EXPECT_EQ(beginning("a", 5), (Jobs{"aa", "ab", "ab~"}));
  EXPECT_EQ(beginning("a", 2), (Jobs{"aa", "ab"}));
  EXPECT_EQ(beginning("ab", 5), (Jobs{"ab", "ab~"}));
  EXPECT_EQ(beginning("abc", 5), (Jobs{}));
  EXPECT_EQ(beginning("%", 5), (Jobs{}));
}

TEST_F(EventLogTest, KeepsTheSameInMemory) {
  log_ = EventLog::InMemory({.most_bytes = kLeastLogBytes, .most_seconds = kDay}, clock());
  for (int i = 0; i < 2000; ++i) AppendNext("a", 200);
  const ReadToEnd all = ReadAll(*log_, 0);
  EXPECT_EQ(all.missed + all.events.size(), 2000);
  EXPECT_GT(all.missed, 0);
  ExpectSame(all.events.back().event, MakeEvent("a", 2000, 200));
  const Result<LogPage> from = log_->AfterNumber({"a", 1});
  ASSERT_TRUE(from.ok());
  EXPECT_EQ(from->missed, all.missed - 1);
  now_seconds_ += 2 * kDay;
  for (int i = 0; i < 40; ++i) AppendNext("a", 200);
  EXPECT_EQ(ReadAll(*log_, 0).events.size(), 40);
}

// ---------------------------------------------------------------------------------------------
// Files, and other processes

TEST_F(EventLogTest, LetsNobodyElseReadItsFiles) {
  const mode_t before = umask(0);
  ASSERT_TRUE(OpenLog().ok());
  AppendNext("a");
  umask(before);
  const auto modes_are_closed = [&] {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      struct stat found {};
      EXPECT_EQ(lstat(entry.path().c_str(), &found), 0);
      EXPECT_EQ(found.st_mode & 07777, 0600) << entry.path();
      ++files;
    }
    return files;
  };
  EXPECT_EQ(modes_are_closed(), 2) << "the file and its journal";
  log_.reset();
  ASSERT_EQ(chmod(path().c_str(), 0666), 0);
  ASSERT_TRUE(OpenLog().ok());
  AppendNext("a");
  modes_are_closed();
  EXPECT_EQ(ReadAll(*log_, 0).events.size(), 2);
}

TEST_F(EventLogTest, MakesAFolderThatOthersCannotUse) {
  const std::string deep = folder_ + "/deep/er";
  Result<std::unique_ptr<EventLog>> log = EventLog::Open(deep + "/events.db", {}, clock());
  ASSERT_TRUE(log.ok()) << log.status().message();
  struct stat found {};
  ASSERT_EQ(lstat(deep.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700);
}

TEST_F(EventLogTest, RefusesAFolderInWhichStrangersWrite) {
  std::filesystem::permissions(folder_, std::filesystem::perms(0777));
  EXPECT_EQ(OpenLog().code(), Code::kSystemError);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(EventLogTest, RefusesWhatIsNotAFile) {
  std::ofstream(folder_ + "/precious") << "text";
  std::filesystem::create_symlink(folder_ + "/precious", path());
  EXPECT_EQ(OpenLog().code(), Code::kSystemError);
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_EQ(OpenLog().code(), Code::kSystemError);
  std::filesystem::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(OpenLog().code(), Code::kSystemError);
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/precious"), 4);
}

TEST_F(EventLogTest, IsRefusedToASecondLogOfTheSameFile) {
  ASSERT_TRUE(OpenLog().ok());
  AppendNext("a");
  const auto second = [&] { return EventLog::Open(path(), {}, clock()).status(); };
  EXPECT_EQ(second().code(), Code::kSystemError);
  EXPECT_NE(second().message().find("in use"), std::string::npos) << second().message();
  const pid_t child = fork();
  if (child == 0) _exit(second().code() == Code::kSystemError ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "another process was let in";
  for (int i = 0; i < 10; ++i) AppendNext("a");
  EXPECT_EQ(ReadAll(*log_, 0).events.size(), 11);
  EXPECT_FALSE(std::filesystem::exists(path() + ".damaged"));
  ASSERT_TRUE(OpenLog().ok());
  EXPECT_EQ(ReadAll(*log_, 0).events.size(), 11);
}

/// Appends until it is killed, and tells the pipe of each event that Append has returned.
[[noreturn]] void AppendForever(const std::string& path, int told) {
  auto log = EventLog::Open(path, {.most_bytes = 1 << 20}, [] { return int64_t{1'800'000'000}; });
  if (!log.ok()) _exit(1);
  for (uint64_t sequence = (*log)->LastSequence("a") + 1;; ++sequence) {
    if (!(*log)->Append(MakeEvent("a", sequence, sequence % 500)).ok()) _exit(2);
    if (write(told, &sequence, sizeof sequence) != sizeof sequence) _exit(3);
  }
}

TEST_F(EventLogTest, LosesNothingThatItHasTakenWhenItsProcessIsKilled) {
  std::mt19937 random(1);
  uint64_t last = 0;
  for (int round = 0; round < (kSanitized ? 10 : 40); ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) AppendForever(path(), ends[1]);
    close(ends[1]);
    // The child is killed at any point of its work, after a number of events that differs.
    const uint64_t enough = last + 1 + random() % 300;
    uint64_t told = 0;
    while (told < enough && read(ends[0], &told, sizeof told) == sizeof told) last = told;
    ASSERT_GE(last, enough) << "the child gave up";
    usleep(static_cast<useconds_t>(random() % 2000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (read(ends[0], &told, sizeof told) == sizeof told) last = told;
    close(ends[0]);

    ASSERT_TRUE(OpenLog({.most_bytes = 1 << 20}).ok());
    ASSERT_FALSE(std::filesystem::exists(path() + ".damaged"));
    // One event may have been kept that the child could not tell of any more.
    EXPECT_GE(log_->LastSequence("a"), last);
    EXPECT_LE(log_->LastSequence("a"), last + 1);
    const ReadToEnd all = ReadAll(*log_, 0);
    ASSERT_FALSE(all.events.empty());
    for (const LoggedEvent& logged : all.events) {
      ExpectSame(logged.event, MakeEvent("a", logged.event.sequence, logged.event.sequence % 500));
    }
    EXPECT_EQ(all.missed + all.events.size(), log_->LastSequence("a"));
    EXPECT_EQ(all.events.back().event.sequence, log_->LastSequence("a"));
    last = log_->LastSequence("a");
    log_.reset();
  }
}

}  // namespace
}  // namespace harmonaize::daemon
