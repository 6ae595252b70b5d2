#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/config/config.h"
#include "daemon/identity/tenant_identity.h"
#include "src/base/log.h"

namespace harmonaize::daemon {

/// A line of the log, before it is written.
struct LogLine {
  std::chrono::system_clock::time_point at;
  LogLevel level = LogLevel::kInfo;
  std::string text;
};

/// Lines of this process's logs since it started. Thread: any.
struct LogCounters {
  std::array<std::atomic<uint64_t>, 5> lines{};  ///< By LogLevel: lines that were not left out.
  std::atomic<uint64_t> own_left_out{0};         ///< Of the daemon's own.
  std::atomic<uint64_t> tenants_left_out{0};     ///< Of those that tenants caused.
};
LogCounters& CountersOfLog();

/// The log's lines, in their order, on their way from the threads that log to the thread that
/// writes. The number of lines is bounded, so a log that nobody reads costs a bounded amount of
/// memory.
///
/// Two limits hold for a tenant's lines: a token bucket, and a share of the queue. The share is no
/// more than the tenant leaves to the others. Half of the queue is the daemon's own. Lines that do
/// not get in are counted, and one line says later how many are missing.
///
/// Not thread safe. Times are of the monotonic clock, in nanoseconds.
class LogQueue {
 public:
  /// The longest line that is kept, in bytes; the rest is cut off.
  static constexpr size_t kMostLineBytes = 4096;
  /// Most lines that wait to be written; half of the places are for the daemon's own lines. Lines
  /// of the greatest length take 8 MiB.
  static constexpr size_t kMostLines = 2048;
  /// Time, in nanoseconds, from a tenant's first missing line until the log says how many are
  /// missing.
  static constexpr uint64_t kToldAfterNanoseconds = 5'000'000'000;

  explicit LogQueue(const LogConfig& config) : config_(config) {}

  /// Adds a line, or counts it as missing. `tenant` is the tenant that caused it; nullptr: the
  /// daemon itself.
  void Add(LogLevel level, std::string_view text, const TenantIdentity* tenant, uint64_t now_ns);
  /// Counts a line for which there was no memory.
  void AddLost() noexcept;
  /// Adds the lines that say how many lines are missing: those that are due and have room, or
  /// `all`.
  void Tell(uint64_t now_ns, bool all);
  /// Removes and returns the oldest line; nullopt if there is none.
  std::optional<LogLine> Take();

  bool empty() const { return lines_.empty(); }
  /// Returns when Tell will have something to add, 0 for at once; nullopt if no line is missing.
  std::optional<uint64_t> TellAt() const;
  /// Number of tenants that are known. A tenant that was quiet for a while is forgotten.
  size_t tenants() const { return tenants_.size(); }

 private:
  /// A tenant, or the daemon itself, with what the queue knows of its lines.
  struct Source {
    std::string name;    ///< "": the daemon itself.
    size_t waiting = 0;  ///< Its lines in the queue.
    uint64_t left_out = 0;
    uint64_t left_out_since_ns = 0;
    LogLevel gravest = LogLevel::kTrace;  ///< The gravest level of the lines that were left out.
    double tokens = 0;                    ///< Lines that it may add, as of tokens_at_ns.
    uint64_t tokens_at_ns = 0;
  };
  struct Entry {
    Source* source;
    LogLine line;
  };

  Source* SourceOf(const TenantIdentity* tenant, uint64_t now_ns);
  void ForgetTheQuiet(uint64_t now_ns);
  double TokensAt(const Source& source, uint64_t now_ns) const;
  size_t RoomOf(const Source& source) const;
  void LeaveOut(Source* source, LogLevel level, uint64_t now_ns);
  void TellOf(Source* source);
  void Push(Source* source, LogLevel level, std::string text);

  const LogConfig config_;
  std::deque<Entry> lines_;
  Source own_;
  std::map<uint32_t, Source> tenants_;  // by TenantIdentity::number
  std::deque<Source*> untold_;          // tenants with missing lines, the first one first
  size_t forget_at_ = 256;              // number of tenants at which quiet ones are looked for
};

}  // namespace harmonaize::daemon
