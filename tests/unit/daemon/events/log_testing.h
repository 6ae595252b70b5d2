#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/events/event_log.h"

namespace harmonaize::daemon {

/// Returns an event whose content follows from its job and number, so that a test knows what to
/// expect of each that it finds.
inline Event MakeEvent(const std::string& job, uint64_t sequence, size_t padding = 0) {
  const auto types = EventTypes();
  const EventTypeInfo& info = types[sequence % types.size()];
  Event event{.job = job,
              .sequence = sequence,
              .type = info.type,
              .subject = "ranks/" + std::to_string(sequence),
              .time_ns = static_cast<int64_t>(sequence % 1'000'000) * 1'000'000'007,
              .severity = info.severity};
  if (sequence % 3 == 0) event.expiry_ns = event.time_ns + 5;
  event.data = R"({"ranks":[)" + std::to_string(sequence) + R"(],"text":"event of )" + job + " " +
               std::string(padding, 'x') + R"("})";
  return event;
}

/// Requires that both are the same in all that an event has.
inline void ExpectSame(const Event& event, const Event& expected) {
  EXPECT_EQ(event.id(), expected.id());
  EXPECT_EQ(event.type, expected.type) << expected.id();
  EXPECT_EQ(event.subject, expected.subject);
  EXPECT_EQ(event.time_ns, expected.time_ns) << expected.id();
  EXPECT_EQ(event.severity, expected.severity) << expected.id();
  EXPECT_EQ(event.expiry_ns, expected.expiry_ns) << expected.id();
  EXPECT_EQ(event.data, expected.data);
}

/// All that a reader gets who goes on to the end.
struct ReadToEnd {
  std::vector<LoggedEvent> events = {};
  uint64_t missed = 0;
  uint64_t missed_of_job = 0;
  uint64_t place = 0;
  uint64_t sequence = 0;
};

inline ReadToEnd ReadAll(EventLog& log, uint64_t place, const EventFilter& filter = {},
                         size_t most = 100) {
  ReadToEnd all{.place = place};
  for (bool more = true; more;) {
    Result<LogPage> page = log.After({all.place, all.sequence}, filter, most);
    if (!page.ok()) {
      ADD_FAILURE() << page.status().message();
      return all;
    }
    EXPECT_LE(page->events.size(), most);
    EXPECT_TRUE(!page->more || page->place > all.place) << "the reader stands still";
    if (page->more && page->place <= all.place) return all;
    for (LoggedEvent& logged : page->events) all.events.push_back(std::move(logged));
    all.missed += page->missed;
    all.missed_of_job += page->missed_of_job;
    all.place = page->place;
    all.sequence = page->sequence;
    more = page->more;
  }
  return all;
}

/// A folder of its own for each test, a clock that stands still, and a log.
class EventLogTest : public ::testing::Test {
 protected:
  EventLogTest() {
    // In memory, where it does not matter what else this machine's disk is asked for.
    std::string name = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
    name += "/harmonaize-event-log-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~EventLogTest() override {
    log_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path() const { return folder_ + "/events.db"; }
  std::function<int64_t()> clock() {
    return [this] { return now_seconds_; };
  }
  Status OpenLog(EventRetention retention = {}) {
    log_.reset();
    Result<std::unique_ptr<EventLog>> opened = EventLog::Open(path(), retention, clock());
    if (!opened.ok()) return opened.status();
    log_ = std::move(*opened);
    return Status::Ok();
  }
  /// Appends the next event of a job, which has to succeed.
  void AppendNext(const std::string& job, size_t padding = 0) {
    const Result<uint64_t> place =
        log_->Append(MakeEvent(job, log_->LastSequence(job) + 1, padding));
    ASSERT_TRUE(place.ok()) << place.status().message();
  }
  std::string FileText() const {
    std::ifstream file(path(), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  std::string folder_;
  int64_t now_seconds_ = 1'800'000'000;
  std::unique_ptr<EventLog> log_;
};

}  // namespace harmonaize::daemon
