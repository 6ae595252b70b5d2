#include "shim/debug_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "shim/line_time.h"
#include "src/base/log.h"

namespace harmonaize::shim {
namespace {

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const std::string text(name);
  return text.substr(0, text.find('.'));
}

class ShimDebugLog : public testing::Test {
 protected:
  void SetUp() override {
    base_ = testing::TempDir() + "shim_debug_log." + std::to_string(getpid());
    path_ = base_ + "." + HostName() + "." + std::to_string(getpid()) + ".%";
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_TIMESTAMP_LEVELS",
                             "NCCL_DEBUG_TIMESTAMP_FORMAT", "RANK"}) {
      unsetenv(name);
    }
    setenv("NCCL_DEBUG_FILE", (base_ + ".%h.%p.%%").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("NCCL_DEBUG");
    ReadDebugEnvironment();
    unlink(path_.c_str());
    SetLogRank(-1);
  }

  /// Sets NCCL_DEBUG and NCCL_DEBUG_SUBSYS, reads them, and logs one line of each kind.
  std::string LinesWith(const char* debug, const char* subsystems = nullptr) {
    setenv("NCCL_DEBUG", debug, 1);
    if (subsystems != nullptr) setenv("NCCL_DEBUG_SUBSYS", subsystems, 1);
    ReadDebugEnvironment();
    Log(LogLevel::kWarning, kLogCall, "a-warning");
    Log(LogLevel::kInfo, kLogInit, "an-init");
    Log(LogLevel::kInfo, kLogCollective, "a-collective");
    Log(LogLevel::kInfo, kLogTuning, "a-tuning");
    Log(LogLevel::kTrace, kLogInit, "a-trace");
    return File();
  }

  std::string File() {
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  static bool Has(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  }

  std::string base_;
  std::string path_;
};

TEST_F(ShimDebugLog, WarnShowsWarningsOnly) {
  const std::string text = LinesWith("warn");
  EXPECT_TRUE(Has(text, "a-warning"));
  EXPECT_FALSE(Has(text, "an-init"));
}

TEST_F(ShimDebugLog, InfoShowsInitUnlessToldOtherwise) {
  const std::string text = LinesWith("INFO");
  EXPECT_TRUE(Has(text, "a-warning"));
  EXPECT_TRUE(Has(text, "an-init"));
  EXPECT_FALSE(Has(text, "a-collective"));
  EXPECT_FALSE(Has(text, "a-trace"));
}

TEST_F(ShimDebugLog, SubsystemsSelect) {
  const std::string text = LinesWith("INFO", "coll,TUNING,NVLS");
  EXPECT_FALSE(Has(text, "an-init"));
  EXPECT_TRUE(Has(text, "a-collective"));
  EXPECT_TRUE(Has(text, "a-tuning"));
}

TEST_F(ShimDebugLog, CaretMeansAllBut) {
  const std::string text = LinesWith("INFO", "^COLL,TUNING");
  EXPECT_TRUE(Has(text, "an-init"));
  EXPECT_FALSE(Has(text, "a-collective"));
  EXPECT_FALSE(Has(text, "a-tuning"));
}

TEST_F(ShimDebugLog, TraceShowsEverythingWithAll) {
  const std::string text = LinesWith("TRACE", "ALL");
  for (const char* part : {"a-warning", "an-init", "a-collective", "a-tuning", "a-trace"}) {
    EXPECT_TRUE(Has(text, part)) << part;
  }
}

TEST_F(ShimDebugLog, VersionAndUnknownNamesShowNoLines) {
  EXPECT_EQ(LinesWith("VERSION"), "");
  EXPECT_EQ(LinesWith("LOUD"), "");
}

TEST_F(ShimDebugLog, LinesTellWhoSpeaks) {
  setenv("RANK", "7", 1);
  const std::string before = LinesWith("INFO");
  const std::string who = HostName() + ":" + std::to_string(getpid()) + ":" +
                          std::to_string(getpid()) + " [7] [harmonaize] INFO an-init\n";
  EXPECT_TRUE(Has(before, who.c_str())) << before;
  SetLogRank(3);
  Log(LogLevel::kInfo, kLogInit, "later");
  EXPECT_TRUE(Has(File(), " [3] [harmonaize] INFO later\n")) << File();
}

TEST_F(ShimDebugLog, NcclsLinesHaveNcclsShape) {
  setenv("NCCL_DEBUG", "INFO", 1);
  ReadDebugEnvironment();
  LogAsNccl(5, kLogInit, "a-line of {}", 2);
  LogAsNccl(5, kLogCollective, "not asked for");
  const std::string who =
      HostName() + ":" + std::to_string(getpid()) + ":" + std::to_string(getpid());
  EXPECT_EQ(File(), who + " [5] NCCL INFO a-line of 2\n");
  setenv("NCCL_DEBUG", "WARN", 1);
  ReadDebugEnvironment();
  LogAsNccl(5, kLogInit, "a-line of {}", 2);
  EXPECT_EQ(File(), "");
}

TEST_F(ShimDebugLog, LevelsThatAreNamedTellTheTime) {
  setenv("NCCL_DEBUG_TIMESTAMP_FORMAT", "<a time>", 1);
  EXPECT_TRUE(LinesWith("INFO").starts_with("<a time>" + HostName() + ":"));
  EXPECT_FALSE(Has(File(), "\n<a time>"));  // Only the warning, which is the first line, does.
  setenv("NCCL_DEBUG_TIMESTAMP_LEVELS", "info,TRACE", 1);
  EXPECT_FALSE(LinesWith("INFO").starts_with("<"));
  EXPECT_TRUE(Has(File(), ("\n<a time>" + HostName()).c_str())) << File();
  LogAsNccl(0, kLogInit, "as-nccl");
  EXPECT_TRUE(Has(File(), "as-nccl")) << File();
  EXPECT_EQ(File().find("<a time>"), File().find('\n') + 1) << File();
}

TEST_F(ShimDebugLog, AFileThatTheProgramHasClosedIsNotWrittenTo) {
  setenv("NCCL_DEBUG", "INFO", 1);
  // The number that the log gets, and that the program gives to a file of its own.
  const int number = dup(STDOUT_FILENO);
  close(number);
  ReadDebugEnvironment();
  Log(LogLevel::kInfo, kLogInit, "before");
  const std::string others = base_ + ".others";
  const int other = open(others.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(dup2(other, number), number);
  Log(LogLevel::kInfo, kLogInit, "after");
  EXPECT_TRUE(Has(File(), "before") && Has(File(), "after")) << File();
  struct stat status = {};
  ASSERT_EQ(fstat(number, &status), 0);
  EXPECT_EQ(status.st_size, 0);
  ReadDebugEnvironment();
  EXPECT_EQ(fcntl(number, F_GETFD), 0) << "the program's file was closed";
  close(other);
  close(number);
  unlink(others.c_str());
}

// 2026-01-31 23:59:58, or one of another zone's hours.
constexpr timespec kMoment = {1769903998, 123456789};

class ShimLineTime : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
  void TearDown() override {
    unsetenv("TZ");
    tzset();
  }
};

TEST_F(ShimLineTime, WarningsAloneTellTheTimeUnlessToldOtherwise) {
  const LineTime time = LineTime::Parse(nullptr, nullptr);
  EXPECT_EQ(time.Prefix(kWarnLine, kMoment), "[2026-01-31 23:59:58] ");
  for (const LineLevel level : {kVersionLine, kInfoLine, kAbortLine, kTraceLine}) {
    EXPECT_EQ(time.Prefix(level, kMoment), "");
  }
}

TEST_F(ShimLineTime, LevelsAreListedOrExcepted) {
  const auto levels = [](const char* text) {
    const LineTime time = LineTime::Parse(text, "x");
    std::string told;
    for (const LineLevel level : {kVersionLine, kWarnLine, kInfoLine, kAbortLine, kTraceLine}) {
      told += time.Prefix(level, kMoment).empty() ? '-' : 'x';
    }
    return told;
  };
  EXPECT_EQ(levels("ALL"), "xxxxx");
  EXPECT_EQ(levels("version,Trace,unknown"), "x---x");
  EXPECT_EQ(levels("^TRACE,warn"), "x-xx-");
  EXPECT_EQ(levels("^"), "xxxxx");
  EXPECT_EQ(levels(""), "-----");
}

TEST_F(ShimLineTime, FormatsAreThoseOfStrftimeWithFractions) {
  const auto with = [](const char* format) {
    return LineTime::Parse("ALL", format).Prefix(kInfoLine, kMoment);
  };
  EXPECT_EQ(with("%H:%M "), "23:59 ");
  EXPECT_EQ(with("[%T.%3f] "), "[23:59:58.123] ");
  EXPECT_EQ(with("%9f"), "123456789");
  EXPECT_EQ(with("%1f|%3f").substr(0, 2), "1|");
  EXPECT_EQ(with("%%3f"), "%3f");
  EXPECT_EQ(with("%%%3f"), "%123");
  EXPECT_EQ(with("%T_-_"), "23:59:58 - ");
  EXPECT_EQ(with(""), "");
  EXPECT_EQ(with("%"), with("%"));  // Whatever strftime makes of it.
  EXPECT_EQ(with(std::string(3000, 'x').c_str()), "[2026-01-31 23:59:58] ");
}

TEST_F(ShimLineTime, TheZoneIsTheProcesss) {
  setenv("TZ", "UTC-5:30", 1);
  tzset();
  EXPECT_EQ(LineTime::Parse("ALL", "%F %T").Prefix(kInfoLine, kMoment), "2026-02-01 05:29:58");
}

TEST_F(ShimDebugLog, ThreadsMayLogWhileTheVariablesAreReadAgain) {
  setenv("NCCL_DEBUG", "INFO", 1);
  ReadDebugEnvironment();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([i] {
      SetLogRank(i);
      for (int line = 0; line < 200; ++line) Log(LogLevel::kInfo, kLogInit, "line {}", line);
    });
  }
  for (int i = 0; i < 20; ++i) ReadDebugEnvironment();
  for (std::thread& thread : threads) thread.join();
  std::stringstream text(File());
  for (std::string line; std::getline(text, line);) {
    EXPECT_TRUE(Has(line, "[harmonaize] INFO line ")) << line;
  }
}

}  // namespace
}  // namespace harmonaize::shim
