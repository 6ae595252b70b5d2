#include "perf/harness/launch.h"

#include <array>
#include <charconv>
#include <cstring>
#include <optional>

namespace harmonaize::perf {
namespace {

using Environment = std::function<const char*(const char*)>;

struct Launcher {
  const char* source;
  const char* rank;
  const char* size;
  const char* local_rank;
};

// srun sets Slurm's variables for its tasks; a batch script also has SLURM_PROCID and SLURM_NTASKS.
constexpr std::array<Launcher, 4> kLaunchers = {{
    {"torchrun variables", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
}};

// First derived port. Derived ports are below the range that Linux uses for outgoing connections
// (32768 and up), so that they are rarely taken.
constexpr uint16_t kFirstDerivedPort = 10000;
// Number of derived ports.
constexpr uint16_t kDerivedPorts = 20000;

Result<std::optional<int>> ReadInteger(const Environment& environment, const char* name, int low,
                                       int high) {
  const char* text = environment(name);
  if (text == nullptr || *text == '\0') return std::optional<int>();
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < low || value > high) {
    return InvalidArgument("{}='{}' is not a number from {} to {}", name, text, low, high);
  }
  return std::optional<int>(value);
}

// Returns a name that only the processes of one job share.
std::string JobName(const Environment& environment, int parent) {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID",
                           "TORCHELASTIC_RUN_ID"}) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') return std::string(name) + "=" + value;
  }
  return "parent=" + std::to_string(parent);
}

uint16_t DerivePort(const std::string& job) {
  return static_cast<uint16_t>(kFirstDerivedPort + HashJob(job) % kDerivedPorts);
}

Status ReadMeetingPoint(const Environment& environment, int parent, Launch* launch) {
  const char* address = environment("MASTER_ADDR");
  if (address != nullptr && *address != '\0') launch->address = address;
  HZ_ASSIGN_OR_RETURN(std::optional<int> port, ReadInteger(environment, "MASTER_PORT", 1, 65535));
  const std::string job = JobName(environment, parent);
  if (!port.has_value()) {
    launch->port = DerivePort(job);
    launch->job = job;
    return Status::Ok();
  }
  launch->port = static_cast<uint16_t>(*port);
  launch->job = "MASTER_PORT=" + std::to_string(*port);
  // torchrun's agent uses MASTER_PORT for its own store.
  const char* agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  if (agent != nullptr && std::strcmp(agent, "True") == 0) {
    launch->port = static_cast<uint16_t>(*port == 65535 ? *port - 1 : *port + 1);
  }
  return Status::Ok();
}

}  // namespace

uint32_t HashJob(const std::string& job) {
  uint32_t hash = 2166136261u;  // FNV-1a (Fowler, Noll, Vo)
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

Result<Launch> ReadLaunch(const Environment& environment, int parent) {
  Launch launch;
  launch.source = "single process";
  for (const Launcher& launcher : kLaunchers) {
    HZ_ASSIGN_OR_RETURN(std::optional<int> size,
                        ReadInteger(environment, launcher.size, 1, 1 << 20));
    if (!size.has_value()) continue;
    HZ_ASSIGN_OR_RETURN(std::optional<int> rank,
                        ReadInteger(environment, launcher.rank, 0, *size - 1));
    if (!rank.has_value()) continue;
    HZ_ASSIGN_OR_RETURN(std::optional<int> local,
                        ReadInteger(environment, launcher.local_rank, 0, 1 << 20));
    launch.source = launcher.source;
    launch.process = *rank;
    launch.processes = *size;
    launch.local_process = local.value_or(*rank);
    break;
  }
  if (launch.processes > 1) HZ_RETURN_IF_ERROR(ReadMeetingPoint(environment, parent, &launch));
  return launch;
}

}  // namespace harmonaize::perf
