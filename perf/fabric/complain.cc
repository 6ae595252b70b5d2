#include "perf/fabric/complain.h"

#include <cstdio>

#include "cli/command_line.h"

namespace harmonaize::fabric {

void Complain(const Status& status) {
  std::fprintf(stderr, "fabric: %s\n", status.message().c_str());
}

int Finish(const Status& status, int failed) {
  if (status.ok()) return 0;
  Complain(status);
  const bool wrong_request =
      status.code() == Code::kInvalidArgument || status.code() == Code::kInvalidUsage;
  return wrong_request ? kUsageStatus : failed;
}

int Finish(const Result<int>& status, int failed) {
  return status.ok() ? *status : Finish(status.status(), failed);
}

}  // namespace harmonaize::fabric
