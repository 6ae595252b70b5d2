#include "shim/job_calls.h"

#include <utility>

#include "shim/face.h"
#include "shim/fallback.h"
#include "src/ipc/http_client.h"

namespace harmonaize::shim {

Result<std::string> JobOf(const Communicator& communicator) {
  std::string job = communicator.job();
  if (job.empty()) return InvalidUsage("the communicator is not ready, so it has no job");
  return job;
}

Result<std::string> JobOf(ncclComm_t comm, const char* lacks) {
  HZ_RETURN_IF_ERROR(CheckHandle(comm));
  if (Forwarding()) return InvalidUsage("calls go to stock NCCL, which {}", lacks);
  return JobOf(*comm->communicator);
}

std::string RouteOfJob(const std::string& job, const char* what) {
  return "/v1/jobs/" + EncodeForUrl(job) + what;
}

}  // namespace harmonaize::shim
