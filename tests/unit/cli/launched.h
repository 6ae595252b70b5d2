#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/run/child_process.h"
#include "cli/run/environment.h"
#include "cli/run/private_daemon.h"

namespace harmonaize {

/// A `harmonaize` that a test started, and its output.
class Launched {
 public:
  /// `words` follow the program's name. The environment names a socket where nobody listens, so
  /// that no daemon of the machine takes part.
  explicit Launched(std::vector<std::string> words, std::string program = HARMONAIZE_PROGRAM,
                    const Environment* environment = nullptr);

  /// Reads until standard output or error contains `text`; returns false at the end of both, or
  /// after 20 s.
  bool ReadUntil(const std::string& text);
  /// Reads to the end and returns the exit status as a shell gives it; -1 after 20 s.
  int Wait();
  void Signal(int signal);
  /// Stops reading standard output.
  void CloseOutput() { child_.standard_output().Reset(); }

  pid_t pid() const { return child_.pid(); }
  const std::string& output() const { return output_; }
  const std::string& error() const { return error_; }

 private:
  bool ReadSome(std::chrono::steady_clock::time_point deadline);

  ChildProcess child_;
  std::string output_;
  std::string error_;
};

/// Returns {"run", "--daemon=none", "--no-preload", words..., "--", "sh", "-c", script}.
std::vector<std::string> RunScript(std::vector<std::string> words, const std::string& script);

/// Returns the lines of a text, sorted, because ranks write in any order.
std::vector<std::string> SortedLines(const std::string& text);

/// Waits until the process is gone; another parent's zombie counts as gone. Returns false after 10
/// s.
bool WaitUntilGone(pid_t process);

/// Returns the environment with which tests start programs.
Environment TestEnvironment();

}  // namespace harmonaize
