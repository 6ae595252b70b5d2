#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/runtime/background.h"
#include "daemon/runtime/log_queue.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/runtime/log_writer.h"

namespace harmonaize::daemon {
namespace {

using std::chrono::milliseconds;

// Longer, in milliseconds, than anything here takes on a busy machine.
constexpr milliseconds kLogPatience(30'000);
constexpr uint64_t kLogSecond = 1'000'000'000;

TenantIdentity LoggingUid(uint32_t number) {
  return {number, number, number, fmt::format("uid {}", number)};
}

LogConfig LogLimits(int64_t burst, double lines_per_second) {
  return {.level = "info", .tenant_burst = burst, .tenant_lines_per_second = lines_per_second};
}

/// Removes and returns all lines that wait.
std::vector<std::string> TakeAllLines(LogQueue* queue) {
  std::vector<std::string> texts;
  while (const std::optional<LogLine> line = queue->Take()) texts.push_back(line->text);
  return texts;
}

void AddLines(LogQueue* queue, int lines, const TenantIdentity* tenant, uint64_t now_ns) {
  for (int i = 0; i < lines; ++i) {
    queue->Add(LogLevel::kInfo, fmt::format("line {}", i), tenant, now_ns);
  }
}

TEST(LogQueue, KeepsTheOrderOfAllLines) {
  LogQueue queue(LogLimits(100, 10));
  const TenantIdentity alice = LoggingUid(1);
  queue.Add(LogLevel::kInfo, "first", nullptr, 0);
  queue.Add(LogLevel::kInfo, "second", &alice, 0);
  queue.Add(LogLevel::kError, "third", nullptr, 0);
  EXPECT_EQ(TakeAllLines(&queue), (std::vector<std::string>{"first", "second", "third"}));
}

TEST(LogQueue, ATenantHasABurstAndThenARate) {
  LogQueue queue(LogLimits(5, 2));
  const TenantIdentity alice = LoggingUid(1);
  AddLines(&queue, 20, &alice, 100 * kLogSecond);
  EXPECT_EQ(TakeAllLines(&queue).size(), 5u);
  AddLines(&queue, 20, &alice, 100 * kLogSecond + kLogSecond / 2);
  EXPECT_EQ(TakeAllLines(&queue).size(), 1u);
  AddLines(&queue, 20, &alice, 102 * kLogSecond);
  EXPECT_EQ(TakeAllLines(&queue).size(), 3u);
  // A tenant saves no more than a burst.
  AddLines(&queue, 20, &alice, 1000 * kLogSecond);
  EXPECT_EQ(TakeAllLines(&queue).size(), 5u);
}

TEST(LogQueue, OneTenantsFloodCostsOthersNothing) {
  LogQueue queue(LogLimits(5, 2));
  const TenantIdentity alice = LoggingUid(1);
  const TenantIdentity bob = LoggingUid(2);
  AddLines(&queue, 10'000, &alice, 0);
  queue.Add(LogLevel::kInfo, "bob's", &bob, 0);
  queue.Add(LogLevel::kInfo, "the daemon's", nullptr, 0);
  const std::vector<std::string> texts = TakeAllLines(&queue);
  ASSERT_EQ(texts.size(), 7u);
  EXPECT_EQ(texts[5], "bob's");
  EXPECT_EQ(texts[6], "the daemon's");
}

TEST(LogQueue, OneLineTellsLaterHowManyAreMissing) {
  LogQueue queue(LogLimits(2, 0.01));
  const TenantIdentity alice = LoggingUid(1);
  EXPECT_EQ(queue.TellAt(), std::nullopt);
  AddLines(&queue, 12, &alice, 100 * kLogSecond);
  AddLines(&queue, 5, &alice, 103 * kLogSecond);
  TakeAllLines(&queue);
  EXPECT_EQ(queue.TellAt(), 105 * kLogSecond);
  queue.Tell(105 * kLogSecond - 1, false);
  EXPECT_TRUE(queue.empty());
  queue.Tell(105 * kLogSecond, false);
  EXPECT_EQ(TakeAllLines(&queue), (std::vector<std::string>{"tenant uid 1: 15 lines left out"}));
  // Each missing line is reported once.
  queue.Tell(200 * kLogSecond, true);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.TellAt(), std::nullopt);
}

TEST(LogQueue, TellsOfTheGravestLineThatIsMissing) {
  LogQueue queue(LogLimits(1, 0.01));
  const TenantIdentity alice = LoggingUid(1);
  for (const LogLevel level :
       {LogLevel::kInfo, LogLevel::kInfo, LogLevel::kError, LogLevel::kInfo}) {
    queue.Add(level, "", &alice, 0);
  }
  TakeAllLines(&queue);
  queue.Tell(0, true);
  EXPECT_EQ(queue.Take()->level, LogLevel::kError);
}

// No line is taken, and each tenant is below its rate.
TEST(LogQueue, IsSharedByTenantsWithoutEndAndTheDaemonItself) {
  LogQueue queue(LogLimits(1'000'000, 1));
  for (uint32_t tenant = 1; tenant <= 1000; ++tenant) {
    const TenantIdentity identity = LoggingUid(tenant);
    AddLines(&queue, 100, &identity, 0);
  }
  AddLines(&queue, 10'000, nullptr, 0);
  const std::vector<std::string> texts = TakeAllLines(&queue);
  EXPECT_EQ(texts.size(), LogQueue::kMostLines);
  // The daemon, which came last, had its half.
  EXPECT_EQ(texts.back(), fmt::format("line {}", LogQueue::kMostLines / 2 - 1));
}

TEST(LogQueue, ATenantAloneHasNoMoreThanItLeavesToOthers) {
  LogQueue queue(LogLimits(1'000'000, 1));
  const TenantIdentity alice = LoggingUid(1);
  const TenantIdentity bob = LoggingUid(2);
  AddLines(&queue, 10'000, &alice, 0);
  AddLines(&queue, 10'000, &bob, 0);
  EXPECT_EQ(TakeAllLines(&queue).size(), LogQueue::kMostLines / 4 + LogQueue::kMostLines / 8);
}

TEST(LogQueue, TheDaemonsOwnMissingLinesAreToldInTheirPlace) {
  LogQueue queue(LogLimits(100, 10));
  AddLines(&queue, LogQueue::kMostLines / 2 + 7, nullptr, 0);
  queue.Take();
  queue.Take();
  queue.Add(LogLevel::kInfo, "after them", nullptr, 0);
  const std::vector<std::string> texts = TakeAllLines(&queue);
  EXPECT_EQ(texts[texts.size() - 2], "7 lines of the daemon's own are missing here");
  EXPECT_EQ(texts.back(), "after them");
}

TEST(LogQueue, ForgetsTenantsThatAreQuietAndNoOthers) {
  LogQueue queue(LogLimits(1, 1));
  const TenantIdentity noisy = LoggingUid(1'000'000);
  AddLines(&queue, 3, &noisy, 0);
  for (uint32_t tenant = 0; tenant < 10'000; ++tenant) {
    const TenantIdentity identity = LoggingUid(tenant);
    queue.Add(LogLevel::kInfo, "", &identity, tenant * kLogSecond / 100);
    TakeAllLines(&queue);
  }
  // A hundred tenants come each second, and each is known for a second.
  EXPECT_LT(queue.tenants(), 1000u);
  queue.Tell(0, true);
  EXPECT_EQ(TakeAllLines(&queue),
            (std::vector<std::string>{"tenant uid 1000000: 2 lines left out"}));
}

TEST(LogQueue, CutsLongLines) {
  LogQueue queue(LogLimits(100, 10));
  queue.Add(LogLevel::kInfo, std::string(1 << 20, 'x'), nullptr, 0);
  EXPECT_EQ(queue.Take()->text.size(), LogQueue::kMostLineBytes);
}

// ---------------------------------------------------------------------------------------------
// The writer

/// Takes the lines of a writer, and can stand still.
class LogReader {
 public:
  std::function<void(const LogLine&)> Write() {
    return [this](const LogLine& line) {
      std::unique_lock lock(mutex_);
      went_on_.wait(lock, [this] { return !stopped_; });
      lines_.push_back(line.text);
    };
  }
  void Stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  void GoOn() {
    const std::lock_guard lock(mutex_);
    stopped_ = false;
    went_on_.notify_all();
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable went_on_;
  bool stopped_ = false;            // guarded by mutex_
  std::vector<std::string> lines_;  // guarded by mutex_
};

/// Starts a writer, which is never destroyed, as writers are.
LogWriter* StartWriter(LogReader* reader, const LogConfig& config = {}) {
  const Result<LogWriter*> writer = LogWriter::Start(config, reader->Write());
  EXPECT_TRUE(writer.ok()) << writer.status().message();
  return *writer;
}

TEST(LogWriter, WritesInOrderAndFlushes) {
  auto* const reader = new LogReader;
  LogWriter* const writer = StartWriter(reader);
  for (int i = 0; i < 500; ++i) writer->Add(LogLevel::kInfo, fmt::format("{}", i), nullptr);
  EXPECT_TRUE(writer->Flush(kLogPatience));
  const std::vector<std::string> lines = reader->lines();
  ASSERT_EQ(lines.size(), 500u);
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i], fmt::format("{}", i));
}

TEST(LogWriter, NoLineForgesAnotherOrReachesTheTerminal) {
  auto* const reader = new LogReader;
  LogWriter* const writer = StartWriter(reader);
  writer->Add(LogLevel::kInfo, "name\n2026-01-01 harmonaized[1] error forged", nullptr);
  writer->Add(LogLevel::kInfo, "a\x1b[2Jb\rc\x7f", nullptr);
  writer->Add(LogLevel::kInfo, "\xff\xc0\x80 \xc2\x9b!", nullptr);
  writer->Add(LogLevel::kInfo, std::string_view("a\0b", 3), nullptr);
  writer->Add(LogLevel::kInfo, "{} %s \xc3\xa4", nullptr);
  EXPECT_TRUE(writer->Flush(kLogPatience));
  EXPECT_EQ(reader->lines(),
            (std::vector<std::string>{"name\uFFFD2026-01-01 harmonaized[1] error forged",
                                      "a\uFFFD[2Jb\uFFFDc\uFFFD", "\uFFFD\uFFFD\uFFFD \uFFFD!",
                                      "a\uFFFDb", "{} %s \u00e4"}));
}

TEST(LogWriter, NobodyWaitsForAReaderThatStandsStill) {
  auto* const reader = new LogReader;
  LogWriter* const writer = StartWriter(reader);
  reader->Stop();
  const TenantIdentity alice = LoggingUid(1);
  for (int i = 0; i < 100'000; ++i) {
    writer->Add(LogLevel::kInfo, "line", i % 2 == 0 ? nullptr : &alice);
  }
  // Flush gives up.
  EXPECT_FALSE(writer->Flush(milliseconds(20)));
  EXPECT_TRUE(reader->lines().empty());
  reader->GoOn();
  EXPECT_TRUE(writer->Flush(kLogPatience));
  size_t lines = 0;
  uint64_t missing = 0;
  for (const std::string& line : reader->lines()) {
    uint64_t count = 0;
    const bool tells = line.find("missing here") != std::string::npos ||
                       line.find("left out") != std::string::npos;
    const size_t number = line.rfind("tenant", 0) == 0 ? line.find(": ") + 2 : 0;
    if (tells) count = std::stoull(line.substr(number));
    missing += count;
    lines += tells ? 0 : 1;
  }
  EXPECT_EQ(lines + missing, 100'000u);
}

TEST(LogWriter, TellsWhatIsMissingThoughNothingElseIsLogged) {
  auto* const reader = new LogReader;
  LogWriter* const writer = StartWriter(reader, LogLimits(1, 0.01));
  const TenantIdentity alice = LoggingUid(1);
  for (int i = 0; i < 4; ++i) writer->Add(LogLevel::kInfo, "line", &alice);
  const auto deadline = std::chrono::steady_clock::now() + kLogPatience;
  while (reader->lines().size() < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(reader->lines(), (std::vector<std::string>{"line", "tenant uid 1: 3 lines left out"}));
}

TEST(LogWriter, ManyThreadsMayLog) {
  auto* const reader = new LogReader;
  LogWriter* const writer = StartWriter(reader);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 4; ++i) {
    threads.emplace_back([writer, i] {
      const TenantIdentity tenant = LoggingUid(i);
      for (int line = 0; line < 50; ++line) writer->Add(LogLevel::kInfo, "line", &tenant);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(writer->Flush(kLogPatience));
  EXPECT_EQ(reader->lines().size(), 200u);
}

// ---------------------------------------------------------------------------------------------
// The tenant that a thread logs for

TEST(LogFor, TheInnermostCountsAndEnds) {
  const TenantIdentity alice = LoggingUid(1);
  const TenantIdentity bob = LoggingUid(2);
  EXPECT_EQ(LogFor::Tenant(), nullptr);
  {
    const LogFor outer(alice);
    {
      const LogFor inner(bob);
      EXPECT_EQ(LogFor::Tenant(), &bob);
      const LogFor own{std::optional<TenantIdentity>()};
      EXPECT_EQ(LogFor::Tenant(), nullptr);
    }
    EXPECT_EQ(LogFor::Tenant(), &alice);
    std::thread([] { EXPECT_EQ(LogFor::Tenant(), nullptr); }).join();
  }
  EXPECT_FALSE(LogFor::Current().has_value());
}

TEST(LogFor, GoesAlongIntoTheBackground) {
  std::vector<std::string> names;
  {
    std::mutex done;
    std::condition_variable ended;
    bool has_ended = false;
    Background background;
    {
      const TenantIdentity alice = LoggingUid(1);
      const LogFor log_for(alice);
      background.Post([&] { names.push_back(LogFor::Current()->name); });
    }
    background.Post([&] {
      names.push_back(LogFor::Tenant() == nullptr ? "" : "somebody");
      const std::lock_guard lock(done);
      has_ended = true;
      ended.notify_all();
    });
    std::unique_lock lock(done);
    ended.wait(lock, [&] { return has_ended; });
  }
  EXPECT_EQ(names, (std::vector<std::string>{"uid 1", ""}));
}

}  // namespace
}  // namespace harmonaize::daemon
