#pragma once

#include <string>
#include <vector>

#include "perf/harness/launch.h"
#include "perf/harness/options.h"
#include "perf/harness/report.h"
#include "src/base/status.h"

namespace harmonaize::perf {

/// The data of a run, as option -J writes it. docs/benchmarks.md has the fields; fields of
/// nccl-tests' JSON have the same names here.
struct RunRecord {
  std::string program;
  std::vector<std::string> arguments;
  std::string start_time;  ///< UTC, ISO 8601
  std::string end_time;
  Versions versions;
  Launch launch;
  Options options;
  std::vector<RankInfo> ranks;
  std::vector<Row> rows;
  Summary summary;
  std::string error;  ///< "" when the run came to its end.
};

/// Returns the current time in UTC, ISO 8601.
std::string Timestamp();

/// Writes `record` to `path`. The file appears complete or not at all.
Status WriteJson(const RunRecord& record, const std::string& path);

}  // namespace harmonaize::perf
