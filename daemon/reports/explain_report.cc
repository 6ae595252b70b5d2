#include "daemon/reports/explain_report.h"

#include <unistd.h>

#include <limits>

#include <nlohmann/json.hpp>

#include "daemon/config/config.h"
#include "daemon/formation/rank_limits.h"
#include "daemon/host/host_tuning.h"
#include "daemon/host/inline_limits.h"
#include "src/base/json_text.h"
#include "src/executor/host/executor.h"
#include "src/ipc/inline_segment.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

json Predictions(const InlineChoice& choice, Collective collective, int ranks, bool registered) {
  json predictions = json::array();
  for (uint64_t bytes = InlineChoice::kSmallestBytes; bytes <= InlineChoice::kLargestBytes;
       bytes *= 2) {
    const HostOperation operation{collective, ranks, bytes, registered};
    predictions.push_back({{"bytes", bytes},
                           {"inline_seconds", choice.InlineSeconds(operation)},
                           {"offload_seconds", choice.OffloadSeconds(operation)}});
  }
  return predictions;
}

json DescribeInline(const InlineConfig& config, bool possible, uint64_t stream_limit) {
  const auto by = [](int64_t configured) {
    return configured >= 0 ? "configuration" : "calibration";
  };
  const bool bounded = stream_limit != std::numeric_limits<uint64_t>::max();
  return {{"enabled", config.enabled},
          {"possible", possible},
          {"most_ranks", kMaxInlineRanks},
          {"stream_bytes", bounded ? json(stream_limit) : json()},
          {"registered_limits_by", by(config.registered_bytes)},
          {"heap_limits_by", by(config.heap_bytes)}};
}

/// Describes whether, and when, an unsure calibration will be replaced.
json DescribeAgain(const ReportSources& sources) {
  const Recalibration::State state = sources.tuning->state();
  json again = {
      {"allowed", sources.config->measure_again}, {"wanted", state.wanted}, {"tries", state.tries}};
  if (state.wanted) again["next_in_seconds"] = state.next_in_seconds;
  return again;
}

}  // namespace

Result<std::string> ExplainReport(const ReportSources& sources, const Reader& reader, int ranks) {
  if (ranks < 1 || ranks > kMaxRanks) {
    return InvalidArgument("a communicator of {} ranks: there are 1 to {}", ranks, kMaxRanks);
  }
  const Config& config = *sources.config;
  const InlineChoice choice = sources.tuning->Choice(sources.executor->machine());
  const bool possible = config.inline_path.enabled && ranks <= kMaxInlineRanks;
  const InlineLimits limits =
      possible ? InlineLimitsFor(config.inline_path, choice, ranks) : InlineLimits{};
  json report = {{"calibration", ToJson(sources.tuning->calibration())},
                 {"ranks", ranks},
                 {"processors", choice.shape().processors},
                 {"workers", choice.shape().workers},
                 {"inline", DescribeInline(config.inline_path, possible, limits.stream)}};
  report["calibration"]["again"] = DescribeAgain(sources);
  if (reader.is_operator) report["calibration"]["state_path"] = config.state_path;
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    report["collectives"].push_back(
        {{"name", CollectiveName(collective)},
         {"registered",
          {{"limit_bytes", limits.registered[i]},
           {"predictions", Predictions(choice, collective, ranks, true)}}},
         {"heap",
          {{"limit_bytes", limits.heap[i]},
           {"predictions", Predictions(choice, collective, ranks, false)}}}});
  }
  return JsonText(report);
}

}  // namespace harmonaize::daemon
