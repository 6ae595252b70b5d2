#include "perf/opportunities/job.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "perf/harness/bootstrap.h"
#include "perf/harness/launch.h"
#include "src/base/json_text.h"
#include "src/base/wall_clock.h"

namespace harmonaize::opportunities {
namespace {

template <typename Value>
Value OrExit(Result<Value> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "opportunity_job: %s\n", result.status().message().c_str());
  std::exit(1);
}

}  // namespace

void Check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "opportunity_job: %s: %s: %s\n", call, ncclGetErrorString(result),
               ncclGetLastError(nullptr));
  std::exit(1);
}

Job Job::Join(const std::string& kind, const std::string& name) {
  const perf::Launch launch = OrExit(perf::ReadLaunch(
      [](const char* variable) { return static_cast<const char*>(std::getenv(variable)); },
      getppid()));
  const std::unique_ptr<perf::Bootstrap> bootstrap =
      OrExit(perf::Bootstrap::Connect(launch, perf::Bootstrap::Timeouts{}));
  ncclUniqueId id{};
  if (launch.process == 0) Check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::vector<std::string> ids =
      OrExit(bootstrap->AllGather({reinterpret_cast<const char*>(&id), sizeof id}));
  std::memcpy(&id, ids[0].data(), sizeof id);
  Job job;
  job.kind_ = kind;
  job.name_ = name;
  job.rank_ = launch.process;
  job.ranks_ = launch.processes;
  Check(ncclCommInitRank(&job.comm_, job.ranks_, id, job.rank_), "ncclCommInitRank");
  return job;
}

float* Job::Allocate(size_t count) const {
  void* memory = nullptr;
  void* handle = nullptr;
  Check(ncclMemAlloc(&memory, count * sizeof(float)), "ncclMemAlloc");
  std::memset(memory, 0, count * sizeof(float));
  Check(ncclCommRegister(comm_, memory, count * sizeof(float), &handle), "ncclCommRegister");
  return static_cast<float*>(memory);
}

void Job::Meet() const {
  int nothing = 0;
  Check(ncclAllReduce(&nothing, &nothing, 1, ncclInt32, ncclSum, comm_, nullptr), "ncclAllReduce");
}

void Job::Write(const std::string& event, nlohmann::ordered_json fields) const {
  if (!leads()) return;
  nlohmann::ordered_json line = {
      {"kind", kind_}, {"name", name_}, {"event", event}, {"unix_seconds", UnixSeconds()}};
  line.update(fields);
  std::printf("%s\n", JsonText(line).c_str());
  std::fflush(stdout);
}

void Job::Leave() {
  Check(ncclCommDestroy(comm_), "ncclCommDestroy");
  comm_ = nullptr;
}

void Compute(double seconds) {
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace harmonaize::opportunities
