// Logs of events on disks that are full, and in files that are not what was written.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "daemon/events/event_log.h"
#include "tests/support/sanitized.h"
#include "tests/unit/daemon/events/log_testing.h"

namespace harmonaize::daemon {
namespace {

class DamagedEventLogTest : public EventLogTest {
 protected:
  /// Makes a file with events of two jobs, some of which were given up, and returns its bytes.
  std::string MakeFile(int events = 700) {
    EXPECT_TRUE(OpenLog({.most_bytes = kLeastLogBytes}).ok());
    for (int i = 0; i < events; ++i) AppendNext(i % 3 == 0 ? "a" : "b", 150);
    log_.reset();
    return FileText();
  }
  void Write(const std::string& bytes) {
    std::filesystem::remove(path() + "-wal");
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }
  /// Requires of a log, whatever its file has been through, that it gives back nothing but what was
  /// appended, and takes new events.
  void ExpectSound() {
    const ReadToEnd before = ReadAll(*log_, 0);
    for (const LoggedEvent& logged : before.events) {
      ExpectSame(logged.event, MakeEvent(logged.event.job, logged.event.sequence, 150));
    }
    EXPECT_EQ(before.missed + before.events.size(), log_->last_place());
    const uint64_t place = log_->last_place();
    AppendNext("a", 150);
    EXPECT_EQ(log_->last_place(), place + 1);
    const ReadToEnd after = ReadAll(*log_, place);
    ASSERT_EQ(after.events.size(), 1);
    EXPECT_EQ(after.events[0].place, place + 1);
    for (const std::string job : {"a", "b", "c"}) {
      for (const uint64_t sequence : {uint64_t{1}, log_->LastSequence(job)}) {
        (void)log_->AfterNumber({job, sequence});
      }
    }
  }
};

TEST_F(DamagedEventLogTest, SurvivesBitsThatFlipAnywhere) {
  const std::string whole = MakeFile();
  std::mt19937_64 random(7);
  int replaced = 0;
  for (int round = 0; round < (kSanitized ? 150 : 600); ++round) {
    std::string bytes = whole;
    // From one bit to a few, in the whole of the file or in its first pages, which hold more that
    // matters.
    const size_t reach = round % 3 == 0 ? 4096 * 4 : bytes.size();
    for (uint64_t flips = 1 + random() % 8; flips > 0; --flips) {
      bytes[random() % reach] ^= static_cast<char>(1u << (random() % 8));
    }
    SCOPED_TRACE("round " + std::to_string(round));
    log_.reset();
    std::filesystem::remove(path() + ".damaged");
    Write(bytes);
    ASSERT_TRUE(OpenLog({.most_bytes = kLeastLogBytes}).ok());
    ExpectSound();
    replaced += std::filesystem::exists(path() + ".damaged") ? 1 : 0;
    if (HasFailure()) return;
  }
  // Both kinds of damage came up: that which a checksum of a row shows, and that of the tables.
  EXPECT_GT(replaced, 10);
  EXPECT_LT(replaced, kSanitized ? 150 : 600);
}

TEST_F(DamagedEventLogTest, SurvivesPagesThatAreExchangedOrEmpty) {
  const std::string whole = MakeFile();
  const size_t pages = whole.size() / 4096;
  std::mt19937 random(3);
  for (int round = 0; round < (kSanitized ? 40 : 200); ++round) {
    std::string bytes = whole;
    const size_t to = random() % pages * 4096;
    if (round % 2 == 0) {
      bytes.replace(to, 4096, whole.substr(random() % pages * 4096, 4096));
    } else {
      bytes.replace(to, 4096, std::string(4096, '\0'));
    }
    SCOPED_TRACE("round " + std::to_string(round));
    log_.reset();
    Write(bytes);
    ASSERT_TRUE(OpenLog({.most_bytes = kLeastLogBytes}).ok());
    ExpectSound();
    if (HasFailure()) return;
  }
}

TEST_F(DamagedEventLogTest, SurvivesBeingCutAnywhere) {
  const std::string whole = MakeFile();
  for (size_t bytes = 0; bytes < whole.size(); bytes += bytes < 200 ? 13 : 3001) {
    SCOPED_TRACE(std::to_string(bytes) + " bytes");
    log_.reset();
    Write(whole.substr(0, bytes));
    ASSERT_TRUE(OpenLog({.most_bytes = kLeastLogBytes}).ok());
    ExpectSound();
    if (HasFailure()) return;
  }
}

TEST_F(DamagedEventLogTest, SurvivesAJournalThatIsDamaged) {
  ASSERT_TRUE(OpenLog().ok());
  for (int i = 0; i < 60; ++i) AppendNext("a", 150);
  // As a killed process leaves them.
  const std::string file = FileText();
  std::ifstream journal_file(path() + "-wal", std::ios::binary);
  const std::string journal(std::istreambuf_iterator<char>(journal_file), {});
  ASSERT_GT(journal.size(), 100'000);
  std::mt19937 random(5);
  for (int round = 0; round < (kSanitized ? 40 : 200); ++round) {
    std::string bytes = journal;
    if (round % 2 == 0) bytes[random() % bytes.size()] ^= static_cast<char>(1u << (random() % 8));
    if (round % 2 == 1) bytes.resize(random() % bytes.size());
    SCOPED_TRACE("round " + std::to_string(round));
    log_.reset();
    Write(file);
    std::ofstream(path() + "-wal", std::ios::binary | std::ios::trunc) << bytes;
    ASSERT_TRUE(OpenLog().ok());
    ExpectSound();
    if (HasFailure()) return;
  }
}

TEST_F(DamagedEventLogTest, SetsAsideWhatIsOfAnotherFormat) {
  Write("a text that somebody else has written, long enough for a header of a page and more: " +
        std::string(5000, '.'));
  ASSERT_TRUE(OpenLog().ok());
  EXPECT_EQ(std::filesystem::file_size(path() + ".damaged"), 5084);
  ExpectSound();
  log_.reset();
  // A log of a later version: the header has it at byte 60.
  std::string later = FileText();
  later[63] = 2;
  Write(later);
  ASSERT_TRUE(OpenLog().ok());
  EXPECT_EQ(std::filesystem::file_size(path() + ".damaged"), later.size()) << "one is kept";
  EXPECT_EQ(log_->last_place(), 0);
  ExpectSound();
  log_.reset();
  // A version of SQLite's format that may be read alone, at byte 18.
  later = FileText();
  later[18] = 47;
  Write(later);
  ASSERT_TRUE(OpenLog().ok());
  EXPECT_EQ(std::filesystem::file_size(path() + ".damaged"), later.size());
  ExpectSound();
}

TEST_F(DamagedEventLogTest, GoesOnAboveThePlacesAndNumbersOfTheDamagedFile) {
  const std::string whole = MakeFile();
  // The page that holds the oldest events: what comes at the end can still be read.
  ASSERT_TRUE(OpenLog({.most_bytes = kLeastLogBytes}).ok());
  const std::string first = ReadAll(*log_, 0).events.front().event.data;
  log_.reset();
  std::string bytes = whole;
  const size_t page = bytes.find(first) / 4096 * 4096;
  ASSERT_NE(page, 0);
  bytes.replace(page, 8, "\xff\xff\xff\xff\xff\xff\xff\xff");
  Write(bytes);
  ASSERT_TRUE(OpenLog({.most_bytes = kLeastLogBytes}).ok());
  EXPECT_TRUE(std::filesystem::exists(path() + ".damaged"));
  EXPECT_EQ(log_->last_place(), 700);
  EXPECT_EQ(log_->LastSequence("a"), 234);
  EXPECT_EQ(log_->LastSequence("b"), 466);
  const Result<LogPage> from = log_->AfterNumber({"a", 200});
  ASSERT_TRUE(from.ok());
  EXPECT_EQ(from->missed, 34);
  EXPECT_EQ(ReadAll(*log_, 0).missed, 700);
  ExpectSound();
}

TEST_F(DamagedEventLogTest, GoesOnWhenTheFileIsDamagedWhileItIsOpen) {
  for (const bool reads_first : {false, true}) {
    ASSERT_TRUE(OpenLog({.most_bytes = 4 << 20}).ok());
    const uint64_t begun = log_->last_place();
    for (int i = 0; i < 3000; ++i) AppendNext("a", 800);
    // Far more than fits in memory has been moved to the file.
    const auto size = std::filesystem::file_size(path());
    ASSERT_GT(size, 2 << 20);
    const int file = open(path().c_str(), O_WRONLY | O_CLOEXEC);
    const std::string noise(size, '\xa5');
    ASSERT_EQ(pwrite(file, noise.data(), noise.size(), 0), static_cast<ssize_t>(size));
    const uint64_t place = log_->last_place();
    const uint64_t sequence = log_->LastSequence("a");
    EXPECT_EQ(place, begun + 3000);
    if (reads_first) {
      const ReadToEnd all = ReadAll(*log_, begun);
      EXPECT_EQ(all.events.size() + all.missed, 3000);
    }
    for (int i = 0; i < 3000; ++i) AppendNext("a", 800);
    EXPECT_TRUE(std::filesystem::exists(path() + ".damaged"));
    EXPECT_EQ(log_->last_place(), place + 3000);
    EXPECT_EQ(log_->LastSequence("a"), sequence + 3000);
    const ReadToEnd all = ReadAll(*log_, begun);
    EXPECT_EQ(all.events.size() + all.missed, 6000);
    EXPECT_GT(all.events.size(), 1000);
    const Result<LogPage> from = log_->AfterNumber({"a", sequence});
    ASSERT_TRUE(from.ok()) << from.status().message();
    close(file);
    std::filesystem::remove(path() + ".damaged");
    now_seconds_ += 10;
  }
}

// ---------------------------------------------------------------------------------------------
// Full disks

/// Appends many events to a log that cannot keep them all, and requires that what is kept and what
/// is missed are all there has been. Returns how many were refused.
int AppendManyToAFullDisk(EventLog& log, int events) {
  int refused = 0;
  for (int i = 0; i < events; ++i) {
    const Event event = MakeEvent("a", log.LastSequence("a") + 1, 300);
    const uint64_t before = log.last_place();
    const Result<uint64_t> place = log.Append(event);
    if (!place.ok()) {
      EXPECT_EQ(place.status().code(), Code::kSystemError) << place.status().message();
      ++refused;
    }
    EXPECT_EQ(log.last_place(), before + 1);
    EXPECT_EQ(log.LastSequence("a"), event.sequence);
  }
  const ReadToEnd all = ReadAll(log, 0);
  EXPECT_EQ(all.events.size() + all.missed, log.last_place());
  const ReadToEnd of_job = ReadAll(log, 0, {.job = "a"});
  EXPECT_EQ(of_job.events.size() + of_job.missed_of_job, log.LastSequence("a"));
  return refused;
}

class FullDiskTest : public EventLogTest {
 protected:
  ~FullDiskTest() override {
    log_.reset();
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  bool Mount(const char* size) {
    mounted_ = mount("tmpfs", folder_.c_str(), "tmpfs", 0, size) == 0;
    return mounted_;
  }
  void Fill(const std::string& name) {
    const int file = open((folder_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const std::string bytes(4096, 'f');
    while (write(file, bytes.data(), bytes.size()) > 0) {
    }
    EXPECT_EQ(errno, ENOSPC);
    close(file);
  }

  bool mounted_ = false;
};

TEST_F(FullDiskTest, GivesUpOldEventsForNewOnes) {
  if (!Mount("size=3m,mode=0700")) GTEST_SKIP() << "only root can mount";
  ASSERT_TRUE(OpenLog({.most_bytes = 8 << 20}).ok());
  const int refused = AppendManyToAFullDisk(*log_, 20'000);
  RecordProperty("refused", refused);
  EXPECT_LT(refused, 200);
  const ReadToEnd all = ReadAll(*log_, 0);
  EXPECT_GT(all.events.size(), 500);
  EXPECT_GE(all.events.back().place, 20'000 - 200);
}

TEST_F(FullDiskTest, TakesEventsAgainWhenOthersMakeRoom) {
  if (!Mount("size=3m,mode=0700")) GTEST_SKIP() << "only root can mount";
  ASSERT_TRUE(OpenLog({.most_bytes = 8 << 20}).ok());
  EXPECT_EQ(AppendManyToAFullDisk(*log_, 1000), 0);
  for (int round = 0; round < 5; ++round) {
    Fill("filler");
    AppendManyToAFullDisk(*log_, 3000);
    std::filesystem::remove(folder_ + "/filler");
    now_seconds_ += 10;
    EXPECT_EQ(AppendManyToAFullDisk(*log_, 300), 0) << "round " << round;
  }
  const uint64_t last = log_->LastSequence("a");
  const uint64_t place = log_->last_place();
  ASSERT_TRUE(OpenLog({.most_bytes = 8 << 20}).ok());
  EXPECT_FALSE(std::filesystem::exists(path() + ".damaged"));
  EXPECT_EQ(log_->LastSequence("a"), last);
  EXPECT_EQ(log_->last_place(), place);
}

TEST_F(FullDiskTest, IsRefusedWhereNothingFitsAndOpensWhereItDoes) {
  if (!Mount("size=1m,mode=0700")) GTEST_SKIP() << "only root can mount";
  Fill("filler");
  EXPECT_EQ(OpenLog().code(), Code::kSystemError);
  std::filesystem::remove(folder_ + "/filler");
  ASSERT_TRUE(OpenLog().ok());
  AppendNext("a");
}

TEST_F(FullDiskTest, RemembersTheNumbersOfEventsItCouldNotKeep) {
  if (!Mount("size=2m,mode=0700")) GTEST_SKIP() << "only root can mount";
  ASSERT_TRUE(OpenLog({.most_bytes = 8 << 20}).ok());
  AppendNext("other");
  AppendNext("a", 300);
  Fill("filler");
  ASSERT_GT(AppendManyToAFullDisk(*log_, 2000), 0);
  ASSERT_FALSE(log_->Append(MakeEvent("other", 2)).ok());
  const uint64_t last = log_->LastSequence("a");
  std::filesystem::remove(folder_ + "/filler");
  now_seconds_ += 10;
  AppendNext("third");
  ASSERT_TRUE(OpenLog({.most_bytes = 8 << 20}).ok());
  EXPECT_EQ(log_->LastSequence("a"), last);
  EXPECT_EQ(log_->LastSequence("other"), 2);
  EXPECT_EQ(log_->LastSequence("third"), 1);
}

TEST_F(FullDiskTest, BeginsAnewWhereADamagedFileFoundNoRoomForAnother) {
  if (!Mount("size=4m,mode=0700")) GTEST_SKIP() << "only root can mount";
  ASSERT_TRUE(OpenLog({.most_bytes = 8 << 20}).ok());
  for (int i = 0; i < 2500; ++i) AppendNext("a", 300);
  const auto size = std::filesystem::file_size(path());
  const std::string noise(size, '\xa5');
  const int file = open(path().c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(file, noise.data(), noise.size(), 0), static_cast<ssize_t>(size));
  close(file);
  // No byte is left, and what is set aside takes what the file took.
  Fill("filler");
  const uint64_t place = log_->last_place();
  for (int i = 0; i < 3000; ++i) {
    const uint64_t sequence = log_->LastSequence("a") + 1;
    (void)log_->Append(MakeEvent("a", sequence, 300));
    (void)log_->Append(MakeEvent("new", i + 1));
    EXPECT_EQ(log_->LastSequence("a"), sequence);
    EXPECT_EQ(log_->LastSequence("new"), i + 1);
    if (i % 100 == 0) now_seconds_ += 1;
  }
  EXPECT_EQ(log_->last_place(), place + 6000);
  // What was set aside has made room.
  EXPECT_FALSE(std::filesystem::exists(path() + ".damaged"));
  now_seconds_ += 10;
  EXPECT_TRUE(log_->After({0}, {}, 1).ok());
  EXPECT_GT(ReadAll(*log_, place).events.size(), 100);
  std::filesystem::remove(folder_ + "/filler");
  now_seconds_ += 10;
  AppendNext("a");
  AppendNext("new");
  EXPECT_EQ(log_->LastSequence("a"), 5501);
  EXPECT_EQ(log_->LastSequence("new"), 3001);
  const ReadToEnd all = ReadAll(*log_, 0);
  EXPECT_EQ(all.events.size() + all.missed, 8502);
  const ReadToEnd of_new = ReadAll(*log_, 0, {.job = "new"});
  EXPECT_EQ(of_new.events.size() + of_new.missed_of_job, 3001);
}

TEST_F(FullDiskTest, SurvivesALimitOnTheSizesOfFiles) {
  // In a process of its own, which keeps the limit. A file that grows beyond it is an error of
  // writing then, not a full disk.
  ASSERT_TRUE(OpenLog({.most_bytes = 8 << 20}).ok());
  log_.reset();
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1'500'000, .rlim_max = 1'500'000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    if (!OpenLog({.most_bytes = 8 << 20}).ok()) _exit(3);
    const int refused = AppendManyToAFullDisk(*log_, 10'000);
    log_.reset();
    _exit(HasFailure() ? 4 : refused < 1000 ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  ASSERT_TRUE(OpenLog({.most_bytes = 8 << 20}).ok());
  EXPECT_FALSE(std::filesystem::exists(path() + ".damaged"));
  EXPECT_EQ(log_->LastSequence("a"), 10'000);
  EXPECT_EQ(AppendManyToAFullDisk(*log_, 100), 0);
}

}  // namespace
}  // namespace harmonaize::daemon
