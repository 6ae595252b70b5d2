#pragma once

#include <sys/types.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::fabric {

/// A background flow, carried by a process of its own.
struct Flow {
  int id = 0;
  pid_t pid = -1;
  std::string from;
  std::string to;
  double bytes_per_second = 0;
};

/// State that a laboratory's folder keeps between commands.
struct LaboratoryState {
  /// Whether it came up; until then its remains are to be removed.
  bool complete = false;
  double message_seconds = 0;     ///< Argument of EmulationCosts.
  std::vector<std::string> down;  ///< Names of links.
  bool rerouted = true;
  /// By link: both rates in bytes a second, where they were changed.
  std::map<std::string, std::array<double, 2>> rates;
  std::vector<Flow> flows;
};

/// The folder of a laboratory's state, the copy of its fabric file, and its hosts' folders:
/// $HARMONAIZE_FABRIC_STATE/NAME; else /run/harmonaize-fabric/NAME, where /run can be written; else
/// $XDG_RUNTIME_DIR/harmonaize-fabric/NAME.
class LaboratoryFolder {
 public:
  explicit LaboratoryFolder(std::string name);

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  std::string FabricFilePath() const { return path_ + "/fabric.toml"; }
  /// Returns the folder of one host: its daemon's socket, log, configuration and state.
  std::string HostPath(const std::string& host) const { return path_ + "/hosts/" + host; }

  bool Exists() const;
  Status Make() const;
  Status Remove() const;
  Result<LaboratoryState> Load() const;
  Status Save(const LaboratoryState& state) const;
  /// Writes a file of the folder.
  Status Write(const std::string& file, const std::string& text) const;

  /// Returns the laboratories that have a folder, sorted.
  static std::vector<std::string> Names();

 private:
  std::string name_;
  std::string path_;
};

/// Keeps two commands from changing one laboratory at a time, even if one of them dies: the kernel
/// releases the lock when the last process that has its descriptor ends.
class LaboratoryLock {
 public:
  /// Waits until no other process holds the lock.
  static Result<LaboratoryLock> Take(const std::string& name);
  int fd() const { return fd_.get(); }
  /// Removes the lock's file as well, because the laboratory is gone.
  void RemoveFile() const;

 private:
  FileDescriptor fd_;
  std::string path_;
};

}  // namespace harmonaize::fabric
