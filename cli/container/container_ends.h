#pragma once

#include <string>
#include <vector>

#include "cli/container/container_command.h"

namespace harmonaize {

/// Ends containers that outlive their clients. A client of docker, podman or nerdctl that is killed
/// leaves its container running, with its memory and its GPUs. Each client writes its container's
/// id to a file, by which the container is killed. Thread: one.
class ContainerEnds {
 public:
  /// Ends nothing.
  ContainerEnds() = default;
  /// `folder` is for the files, and nobody else's.
  ContainerEnds(const ContainerCommand& command, std::string folder);

  /// Returns whether a command's containers can outlive it, and its ids are not written elsewhere
  /// by the user's own options.
  static bool IsNeededFor(const ContainerCommand& command);

  /// Returns the file for the id of a rank's container; "" where none is wanted.
  std::string FileOf(int number) const;
  /// Kills the containers of these ranks, as far as they run, and waits some seconds for that.
  void Kill(const std::vector<int>& numbers) const;
  /// Kills all containers of which there are files.
  void KillAll() const;

 private:
  void KillOfFiles(const std::vector<std::string>& files) const;

  std::vector<std::string> kill_;  ///< The command line that kills, without the ids.
  std::string folder_;
};

}  // namespace harmonaize
