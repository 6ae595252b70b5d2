#include "daemon/api/named_job.h"

#include <vector>

#include "daemon/jobs/job_table.h"

namespace harmonaize::daemon {

Result<Job*> NamedJob(EngineRooms& rooms, std::optional<uint32_t> tenant,
                      const std::string& which) {
  const std::vector<Job*> found = rooms.jobs().FindAll(tenant, which);
  if (found.empty()) return Unavailable("there is no such job here; GET /v1/jobs lists yours");
  if (found.size() > 1) {
    return InvalidUsage("jobs of several tenants have this name; GET /v1/jobs lists their ids");
  }
  return found.front();
}

}  // namespace harmonaize::daemon
