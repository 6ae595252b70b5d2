#include "daemon/reports/forming_report.h"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/diagnosis/verdict.h"
#include "daemon/tenant/rank_list.h"
#include "src/base/time_text.h"
#include "src/base/wall_clock.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

double SecondsOf(const Formation& formation, uint64_t now_ns) {
  return static_cast<double>(formation.age_ns(now_ns)) * 1e-9;
}

/// Returns since when the first rank waits, as people write it.
std::string SinceOf(const Formation& formation, uint64_t now_ns) {
  return TimeText(static_cast<int64_t>((UnixSeconds() - SecondsOf(formation, now_ns)) * 1e9));
}

}  // namespace

json DescribeForming(const Formation& formation, uint64_t now_ns) {
  return {{"operation", formation.what()},
          {"name", formation.name()},
          {"size", formation.places()},
          {"missing", formation.missing()},
          {"missing_ranks", formation.MissingRanks(kMostNamedRanks)},
          {"since", SinceOf(formation, now_ns)},
          {"for_seconds", SecondsOf(formation, now_ns)},
          {"text", formation.WaitText(now_ns)}};
}

json DescribeFormingVerdict(const Formation& formation, uint64_t now_ns) {
  const std::string_view hang = NameOf(HangClass::kNotCalled);
  const std::string_view doing = NameOf(Doing::kUnknown);
  json roots = json::array();
  for (const int rank : formation.MissingRanks(kMostRoots)) {
    roots.push_back(
        {{"rank", rank}, {"communicator", formation.label()}, {"class", hang}, {"doing", doing}});
  }
  return {{"communicator", nullptr},
          {"communicator_name", formation.name()},
          {"operation", {{"name", formation.what()}}},
          {"class", hang},
          {"fault", true},
          {"ranks", formation.MissingRanks(kMostNamedRanks)},
          {"roots", std::move(roots)},
          {"doing", doing},
          {"since", SinceOf(formation, now_ns)},
          {"for_seconds", SecondsOf(formation, now_ns)},
          {"stage", nullptr},
          {"way_out", kWayOutOfMissing},
          {"text", formation.WaitText(now_ns)}};
}

}  // namespace harmonaize::daemon
