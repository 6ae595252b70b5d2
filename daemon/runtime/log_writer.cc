#include "daemon/runtime/log_writer.h"

#include <memory>
#include <system_error>
#include <thread>

#include "daemon/runtime/guarded.h"
#include "src/base/clean_text.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Time, in nanoseconds, after which the writer asks again for memory that it did not get.
constexpr uint64_t kRetryNanoseconds = 10'000'000;

}  // namespace

Result<LogWriter*> LogWriter::Start(const LogConfig& config,
                                    std::function<void(const LogLine&)> write) {
  std::unique_ptr<LogWriter> writer(new LogWriter(config, std::move(write)));
  try {
    std::thread([self = writer.get()] { self->Run(); }).detach();
  } catch (const std::system_error& error) {
    return SystemError("cannot start a thread for the log: {}", error.what());
  }
  return writer.release();
}

void LogWriter::Add(LogLevel level, std::string_view line, const TenantIdentity* tenant) noexcept {
  {
    const std::lock_guard lock(mutex_);
    try {
      queue_.Add(level, line, tenant, MonotonicNanoseconds());
    } catch (...) {
      queue_.AddLost();
    }
  }
  added_.notify_one();
}

bool LogWriter::Flush(std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  queue_.Tell(MonotonicNanoseconds(), true);
  added_.notify_one();
  return written_.wait_for(lock, within, [this] { return queue_.empty() && !writing_; });
}

void LogWriter::Run() {
  while (true) Write(TakeNext());
}

LogLine LogWriter::TakeNext() {
  std::unique_lock lock(mutex_);
  writing_ = false;
  while (true) {
    // If there is no memory for the report, a later round adds it.
    Guarded([this] { queue_.Tell(MonotonicNanoseconds(), false); }, [](const Status&) {});
    if (std::optional<LogLine> line = queue_.Take()) {
      writing_ = true;
      return *std::move(line);
    }
    written_.notify_all();
    WaitForMore(lock);
  }
}

// A report that is due by now could not be added for want of memory.
void LogWriter::WaitForMore(std::unique_lock<std::mutex>& lock) {
  const std::optional<uint64_t> tell_at_ns = queue_.TellAt();
  if (!tell_at_ns.has_value()) return added_.wait(lock);
  const uint64_t now_ns = MonotonicNanoseconds();
  const uint64_t wait_ns = *tell_at_ns > now_ns ? *tell_at_ns - now_ns : kRetryNanoseconds;
  added_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
}

void LogWriter::Write(LogLine line) {
  try {
    line.text = CleanText(line.text, LogQueue::kMostLineBytes);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    return queue_.AddLost();
  }
  write_(line);
}

}  // namespace harmonaize::daemon
