#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace harmonaize::testing {

/// A harmonaized of the test's own, in a folder of its own. Started by the constructor, which
/// returns once it listens; HARMONAIZE_SOCKET of this process and its children then names it.
/// Stopped, and checked to have left nothing behind, by the destructor.
class DaemonProcess {
 public:
  /// `config` is the text of a provider.toml; unless it has a table [calibration], the daemon does
  /// not measure this host again. With `keep_log` what it logs, from level info on, is
  /// kept for Log() instead of being shown.
  explicit DaemonProcess(const std::string& config = "", bool keep_log = false);
  /// What it logs, from the level of `config` on, goes to this descriptor of the test's.
  struct LogTo {
    int descriptor = -1;
  };
  DaemonProcess(const std::string& config, LogTo log);
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  /// From now on daemons are run by the program `words`, which gets theirs and its arguments, and
  /// members of the group may write to their folders.
  static void RunBy(std::vector<std::string> words, gid_t group);
  /// The group of RunBy; root's without it.
  static gid_t group();

  pid_t pid() const { return pid_; }
  const std::string& folder() const { return folder_; }
  const std::string& socket_path() const { return socket_path_; }
  std::string Log() const;

  /// SIGTERM; the exit status once it has ended.
  int Stop();
  /// SIGKILL, as a crash would end it.
  void Kill();

  /// What it holds, from /proc.
  int OpenDescriptors() const;
  /// Waits until it holds no more descriptors than this; false when that takes longer than 30 s.
  bool SettlesTo(int descriptors) const;
  int Mappings() const;
  long ResidentKilobytes() const { return NumberIn("status", "VmRSS"); }
  /// The number behind "NAME:" in one of its files in /proc; -1 where it is not there.
  long NumberIn(const std::string& file, const std::string& name) const;
  /// Processor time used so far, in clock ticks.
  long ProcessorTicks() const;
  /// The same of each thread that it has now, by the thread's number.
  std::map<pid_t, long> ThreadTicks() const;

 private:
  /// `log` -1: standard error as it is. `level` nullptr: as `config` says.
  void Start(const std::string& config, int log, const char* level);

  std::string folder_;
  std::string socket_path_;
  pid_t pid_ = -1;
};

}  // namespace harmonaize::testing
