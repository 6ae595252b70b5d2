#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace harmonaize::testing {

/// A harmonaized of the test's own, in a folder of its own. The constructor starts it and returns
/// once it listens; HARMONAIZE_SOCKET of this process and its children then names it. The
/// destructor stops it, and checks that it has left nothing behind.
class DaemonProcess {
 public:
  /// `config` is the text of a provider.toml; unless it has a table [calibration], the daemon does
  /// not measure this host again. With `keep_log` its log, from level info on, is kept for Log()
  /// instead of being shown.
  explicit DaemonProcess(const std::string& config = "", bool keep_log = false);
  /// A descriptor of the test's for the daemon's log, from the level of `config` on.
  struct LogTo {
    int descriptor = -1;
  };
  DaemonProcess(const std::string& config, LogTo log);
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  /// Makes the program `words` run all later daemons: it gets their program and arguments. Members
  /// of the group may write to their folders.
  static void RunBy(std::vector<std::string> words, gid_t group);
  /// Gives all later daemons these arguments, too.
  static void SetArguments(std::vector<std::string> words);
  /// Returns the group of RunBy; root's without it.
  static gid_t group();

  pid_t pid() const { return pid_; }
  const std::string& folder() const { return folder_; }
  const std::string& socket_path() const { return socket_path_; }
  std::string Log() const;
  /// Whether the log holds `text`. A thread of the daemon's own writes the log, after what it tells
  /// of, so this waits for the text, at most a minute.
  bool WaitForLog(std::string_view text) const;

  /// Sends SIGTERM. Returns the exit status once it has ended.
  int Stop();
  /// Sends SIGKILL, to end it as a crash would.
  void Kill();

  /// Returns the number of descriptors that the daemon holds, by /proc.
  int OpenDescriptors() const;
  /// Waits until it holds no more descriptors than this; returns false after 30 s.
  bool SettlesTo(int descriptors) const;
  int Mappings() const;
  long ResidentKilobytes() const { return NumberIn("status", "VmRSS"); }
  /// Returns the number after "NAME:" in one of its files in /proc; -1 where it is not there.
  long NumberIn(const std::string& file, const std::string& name) const;
  /// Returns the processor time used so far, in clock ticks.
  long ProcessorTicks() const;
  /// Returns the ticks of each thread that it has now, by the thread's number.
  std::map<pid_t, long> ThreadTicks() const;

 private:
  /// `log` -1: standard error unchanged. `level` nullptr: the level in `config`.
  void Start(const std::string& config, int log, const char* level);

  std::string folder_;
  std::string socket_path_;
  pid_t pid_ = -1;
};

}  // namespace harmonaize::testing
