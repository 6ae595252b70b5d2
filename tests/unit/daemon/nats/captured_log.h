#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/log.h"

namespace harmonaize::daemon {

/// Keeps the lines that are logged, for as long as the object exists. Thread: any.
class CapturedLog {
 public:
  CapturedLog() {
    const std::lock_guard lock(Mutex());
    Lines().clear();
    SetLog(LogLevel::kInfo, kLogAll, [](LogLevel, LogSubsystem, std::string_view line) {
      const std::lock_guard lock_of_line(Mutex());
      Lines().emplace_back(line);
    });
  }
  ~CapturedLog() {
    SetLog(LogLevel::kWarning, kLogAll, [](LogLevel, LogSubsystem, std::string_view) {});
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  /// Returns the lines that hold `text`.
  std::vector<std::string> With(std::string_view text) const {
    const std::lock_guard lock(Mutex());
    std::vector<std::string> found;
    for (const std::string& line : Lines()) {
      if (line.find(text) != std::string::npos) found.push_back(line);
    }
    return found;
  }
  /// Returns all of them, for failures.
  std::string text() const {
    const std::lock_guard lock(Mutex());
    std::string all;
    for (const std::string& line : Lines()) all += line + "\n";
    return all;
  }

 private:
  static std::mutex& Mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::vector<std::string>& Lines() {
    static std::vector<std::string> lines;
    return lines;
  }
};

}  // namespace harmonaize::daemon
