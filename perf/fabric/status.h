#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/fabric/laboratory.h"
#include "src/base/status.h"

namespace harmonaize::fabric {

struct LinkStatus {
  int link = -1;
  bool up = true;
  /// From the first end, and back.
  std::array<double, 2> bytes_per_second{};
  std::array<int64_t, 2> sent_bytes{};
};

/// Returns what the links can carry, and have carried; by link.
Result<std::vector<LinkStatus>> LinksNow(const Laboratory& laboratory);

/// Returns the whole laboratory as a table, or as JSON.
Result<std::string> StatusTable(Laboratory& laboratory);
Result<std::string> StatusJson(Laboratory& laboratory);

}  // namespace harmonaize::fabric
