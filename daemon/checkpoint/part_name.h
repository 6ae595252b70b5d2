#pragma once

#include <compare>
#include <cstdint>

#include "daemon/jobs/job_table.h"

namespace harmonaize::daemon {

/// Names a part among all that hosts have.
struct PartName {
  JobTable::Key job = {};
  uint64_t save = 0;
  int rank = 0;

  auto operator<=>(const PartName&) const = default;
};

}  // namespace harmonaize::daemon
