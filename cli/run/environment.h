#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace harmonaize {

/// A set of environment variables. A value type. Thread: one.
class Environment {
 public:
  /// Returns a copy of this process's own environment.
  static Environment OfThisProcess();

  void Set(std::string_view name, std::string_view value);
  void Unset(std::string_view name);
  /// Returns the value, or "" when there is none.
  std::string Get(std::string_view name) const;
  bool Has(std::string_view name) const;

  /// Returns "NAME=value" lines as execve takes them, sorted by name.
  std::vector<std::string> Lines() const;

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

/// Variables that tell a rank its identity.
struct RankVariables {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;                        ///< Number among the ranks of the same host.
  int local_world_size = 1;                  ///< Number of ranks of the same host.
  std::string master_address = "127.0.0.1";  ///< Address of rank 0's host.
  uint16_t master_port = 0;                  ///< A free TCP port there.
  std::string socket;           ///< The daemon's socket, or "" to leave HARMONAIZE_SOCKET alone.
  std::string job_name;         ///< "" to leave HARMONAIZE_JOB alone.
  std::string job_kind;         ///< "" to leave HARMONAIZE_JOB_KIND alone.
  std::string requirements;     ///< A file's path; "" to leave HARMONAIZE_REQUIREMENTS alone.
  std::string preload_library;  ///< Goes before the value of LD_PRELOAD; "" for none.
  std::vector<std::string> assignments;  ///< "NAME=value", win over everything else.
};

/// Variables that tell a process how it becomes a rank of a job that runs.
struct NewcomerVariables {
  int local_rank = 0;
  std::string ticket_file;
};

/// Returns the environment of a rank for a newcomer: a ticket in place of a rank's number and of
/// all that is known at the start of a job alone.
Environment NewcomerEnvironment(Environment of_rank, const NewcomerVariables& variables);

/// Returns `base` with torchrun's variables (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,
/// MASTER_ADDR, MASTER_PORT), HARMONAIZE_SOCKET, HARMONAIZE_JOB, HARMONAIZE_JOB_KIND,
/// HARMONAIZE_REQUIREMENTS and LD_PRELOAD for one rank of a job.
Environment RankEnvironment(const Environment& base, const RankVariables& variables);

/// Returns ok if `name` can be a job's: not empty, as short as daemons take it, and in one line.
Status CheckJobName(std::string_view name);

/// Returns ok if `assignment` reads "NAME=value" with a NAME that a shell takes.
Status CheckAssignment(std::string_view assignment);

}  // namespace harmonaize
