// The file of a log of events, and its journal: what an earlier daemon, or a broken disk, left.

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/events/event_log.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using namespace daemon;

/// A folder in memory for this process.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
    name += "/harmonaize-event-log-fuzzer-XXXXXX";
    Require(mkdtemp(name.data()) != nullptr, "there is room for a folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  /// The path of a log in the folder, which is made empty.
  std::string EmptyLog() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      std::filesystem::remove(entry.path());
    }
    return path_ + "/events.db";
  }

 private:
  std::string path_;
};

/// Goes on to the end, and requires that this ends.
void ReadToEnd(EventLog& log) {
  uint64_t place = 0;
  for (bool more = true; more;) {
    const Result<LogPage> page = log.After({place}, {}, 50);
    RequireOk(page.status(), "a log that is open can be read");
    Require(!page->more || page->place > place, "a reader comes forward");
    for (const LoggedEvent& logged : page->events) {
      RequireOk(CheckEvent(logged.event), "an event that is read could be kept");
      Require(logged.place > place, "places grow");
      place = logged.place;
    }
    Require(page->place >= place, "a page ends behind its events");
    place = page->place;
    more = page->more;
  }
}

void Use(EventLog& log) {
  ReadToEnd(log);
  for (const std::string job : {"", "job", "new"}) {
    const uint64_t sequence = log.LastSequence(job) + 1;
    (void)log.AfterNumber({job, sequence / 2});
    // A number that a bit has made so large has none after it.
    if (sequence > kMostSequence) continue;
    const uint64_t place = log.last_place();
    const Result<uint64_t> kept = log.Append({.job = job, .sequence = sequence});
    RequireOk(kept.status(), "a log that is open takes events");
    Require(*kept == place + 1, "the next place follows the last");
    const Result<LogPage> page = log.After({place}, {}, 1);
    RequireOk(page.status(), "it can be read");
    Require(page->events.size() == 1, "what was appended is there");
  }
  ReadToEnd(log);
  const Result<std::vector<std::string>> jobs = log.JobsBeginning("jo", 2);
  // Damage that shows only now may come too soon after a replaced file.
  if (!jobs.ok()) return;
  Require(jobs->size() <= 2, "no more jobs than were asked for");
  for (const std::string& job : *jobs) Require(job.starts_with("jo"), "they begin so");
}

void Run(Input input) {
  static const Folder folder;
  static int64_t now_seconds = 1'800'000'000;
  // Far enough apart that no input waits for what happened in the one before.
  now_seconds += 100;
  const std::string path = folder.EmptyLog();
  const auto file_bytes = input.Take<uint32_t>();
  std::ofstream(path, std::ios::binary) << TextOf(input.TakeBytes(file_bytes));
  if (!input.empty()) std::ofstream(path + "-wal", std::ios::binary) << TextOf(input.TakeRest());
  // No event of a seed is too old.
  const EventRetention retention{.most_bytes = kLeastLogBytes, .most_seconds = int64_t{1} << 40};
  for (int opened = 0; opened < 2; ++opened) {
    Result<std::unique_ptr<EventLog>> log =
        EventLog::Open(path, retention, [] { return now_seconds; });
    RequireOk(log.status(), "a file of any bytes is no obstacle");
    Use(**log);
  }
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
