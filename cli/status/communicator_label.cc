#include "cli/status/communicator_label.h"

#include "cli/jobs/short_job_id.h"

namespace harmonaize {

std::string CommunicatorIdOf(const Json& communicator) {
  return TextAt(communicator, At(communicator, "handle").is_string() ? "handle" : "id");
}

std::string JobLabelOf(const Json& communicator) {
  const std::string name = TextAt(communicator, "job_name");
  return name.empty() || name == kMissing ? ShortJobId(TextAt(communicator, "job")) : name;
}

}  // namespace harmonaize
