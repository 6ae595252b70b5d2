#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/run/environment.h"
#include "cli/run/rank_program.h"

namespace harmonaize {

/// A file or folder of the host that a container sees, and may not write.
struct ReadOnlyMount {
  std::string source;
  std::string target;
};

/// Everything that a rank in a container gets of its host, with the paths that it has there.
struct Injected {
  std::vector<ReadOnlyMount> mounts;
  std::string library;             ///< To preload; "": none.
  std::vector<std::string> names;  ///< Variables that `run` sets; none of them holds a secret.
  std::vector<std::string> assignments;  ///< "NAME=value", the user's own.
  Environment of_rank;                   ///< Values of all of these, and whatever else a rank gets.
  Environment of_launcher;               ///< For the container runtime itself.
  std::string id_file;                   ///< For the container's id; "": not wanted.
  bool shares_network = false;           ///< The rank has to reach others at MASTER_ADDR.
};

/// Returns the value that the user's own assignments give the variable.
std::optional<std::string> AssignedValue(const Injected& injected, std::string_view name);

/// Returns a value of LD_PRELOAD: the library, and behind it what was there.
std::string JoinPreload(const std::string& library, std::string_view others);

}  // namespace harmonaize
