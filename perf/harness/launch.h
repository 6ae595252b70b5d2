#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "src/base/status.h"

namespace harmonaize::perf {

/// Identity of this process among those that were started together.
struct Launch {
  int process = 0;  ///< 0 .. processes - 1
  int processes = 1;
  int local_process = 0;  ///< Number among the processes of this host; a label for "device".
  std::string address = "127.0.0.1";  ///< Address where process 0 listens.
  uint16_t port = 0;                  ///< 0 with a single process.
  std::string job;     ///< Equal in all processes of the job, and different in other jobs if known.
  std::string source;  ///< "torchrun variables", "Open MPI", "MPICH", "single process".
};

/// Reads it from the environment, in this order: RANK and WORLD_SIZE (`harmonaize run`, torchrun),
/// OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH and other Hydras),
/// SLURM_PROCID and SLURM_STEP_NUM_TASKS. Without any of them the process is alone.
///
/// MASTER_ADDR and MASTER_PORT tell where the processes meet. mpirun sets neither: then the address
/// is the loopback device, and the port is derived from values that the launcher gives all its
/// processes.
///
/// `environment` returns a variable's value or NULL, as getenv does. `parent` is the process that
/// started this one, a last resort to tell jobs apart.
Result<Launch> ReadLaunch(const std::function<const char*(const char*)>& environment, int parent);

/// Returns a number for a job's name, equal in every process, unlike std::hash across libraries.
uint32_t HashJob(const std::string& job);

}  // namespace harmonaize::perf
