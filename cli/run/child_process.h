#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// The program to run, and its ties to its parent.
struct ChildSpec {
  std::vector<std::string> arguments;    ///< The program, sought in PATH, and its arguments.
  std::vector<std::string> environment;  ///< "NAME=value" lines.
  sigset_t signal_mask{};                ///< The mask that the program starts with.
  bool keep_standard_input = false;      ///< Otherwise it reads /dev/null.
  int parent_death_signal = SIGKILL;     ///< Signal that the kernel sends it when this process
                                         ///< dies.
  /// Called in the child as the last thing before the program starts, to enter a namespace, say.
  /// Must not allocate. False, with errno: the program is not started.
  std::function<bool()> prepare{};
};

/// End of a process, by itself or by a signal.
struct ChildEnd {
  bool by_signal = false;
  int value = 0;  ///< The exit status, or the signal's number.

  bool success() const { return !by_signal && value == 0; }
  /// Returns the exit status as a shell gives it: 128 + n after signal n.
  int ShellStatus() const { return by_signal ? 128 + value : value; }
  /// Returns "exited with status 3", "was killed by SIGSEGV (Segmentation fault)".
  std::string ToString() const;
};

/// A child in a process group of its own, with pipes on its standard output and error.
///
/// The child stays a zombie after its end until Reap, so its process group cannot be mistaken for
/// another one that got the same number. The destructor kills and reaps what is left. Thread: one.
/// Start it from a thread that lives as long as the process, because the kernel takes that thread's
/// end for the parent's death.
class ChildProcess {
 public:
  /// Errors: kInvalidArgument if there is no such program, kInvalidUsage if it cannot be executed.
  static Result<ChildProcess> Start(const ChildSpec& spec);

  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  /// Returns a descriptor that is readable once the child itself has ended.
  int pidfd() const { return pidfd_.get(); }
  FileDescriptor& standard_output() { return standard_output_; }
  FileDescriptor& standard_error() { return standard_error_; }

  /// Returns how the child ended, or nothing while it runs. Does not wait.
  std::optional<ChildEnd> PollEnd();
  bool ended() const { return end_.has_value(); }
  /// Sends `signal` to every process of the child's group.
  void SignalGroup(int signal) const;
  /// Lets the kernel forget a child that has ended; waits for its end if necessary.
  void Reap();

 private:
  void End();

  pid_t pid_ = -1;
  FileDescriptor pidfd_;
  FileDescriptor standard_output_;
  FileDescriptor standard_error_;
  std::optional<ChildEnd> end_;
};

}  // namespace harmonaize
