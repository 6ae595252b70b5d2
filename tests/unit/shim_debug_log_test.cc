#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "shim/debug_log.h"
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
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "RANK"}) unsetenv(name);
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
