#include "daemon/reports/stuck_report.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/communicator/communicator_wait.h"
#include "src/base/time_text.h"
#include "src/base/wall_clock.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

json DescribeOperation(const Verdict& verdict) {
  if (verdict.operation.empty()) return nullptr;  // the communicator failed between operations
  json operation = {{"name", verdict.operation}};
  if (verdict.key.pair) {
    operation["from"] = verdict.key.from;
    operation["to"] = verdict.key.to;
  } else if (!verdict.key.by_ranks) {
    operation["sequence"] = verdict.key.sequence;
  }
  return operation;
}

json TextOrNull(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

}  // namespace

json DescribeVerdict(const Communicator& communicator, const Verdict& verdict, uint64_t now_ns) {
  const double seconds = static_cast<double>(AgeAt(verdict.since_ns, now_ns)) * 1e-9;
  json roots = json::array();
  for (const HangRoot& root : verdict.roots) {
    roots.push_back({{"rank", root.rank},
                     {"communicator", root.communicator},
                     {"class", NameOf(root.hang)},
                     {"doing", NameOf(root.doing)}});
  }
  return {{"communicator", communicator.handle()},
          {"communicator_name", communicator.name()},
          {"operation", DescribeOperation(verdict)},
          {"class", NameOf(verdict.hang)},
          {"fault", verdict.fault()},
          {"ranks", AwaitedRanks(verdict)},
          {"roots", std::move(roots)},
          {"doing", NameOf(verdict.doing)},
          {"since", TimeText(static_cast<int64_t>((UnixSeconds() - seconds) * 1e9))},
          {"for_seconds", seconds},
          {"stage", TextOrNull(verdict.stage)},
          {"way_out", TextOrNull(WayOutOf(verdict))},
          {"text", verdict.text}};
}

}  // namespace harmonaize::daemon
