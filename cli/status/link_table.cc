#include "cli/status/link_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cli/human_units.h"
#include "cli/json_view.h"
#include "cli/status/controller_table.h"
#include "cli/status/nic_table.h"
#include "cli/text_table.h"
#include "cli/top/growth.h"

namespace harmonaize {
namespace {

using RailKey = std::pair<std::string, std::string>;  // peer, rail

// Most jobs shown where this daemon is the controller.
constexpr size_t kMostJobs = 100;

std::map<RailKey, Json> RailsOf(const Json& document) {
  std::map<RailKey, Json> rails;
  for (const Json& link : ListAt(At(document, "cluster"), "links")) {
    for (const Json& rail : ListAt(link, "rails")) {
      rails[{TextAt(link, "peer"), TextAt(rail, "name")}] = rail;
    }
  }
  return rails;
}

/// Returns whether a time is known: 0 means that it is not.
bool IsKnown(const Json& seconds) {
  return seconds.is_number() && seconds.get<double>() > 0;
}

std::string RoundTripOf(const Json& rail) {
  return IsKnown(At(rail, "round_trip_seconds")) ? TimeAt(rail, "round_trip_seconds") : kMissing;
}

std::string QueueOf(const Json& rail) {
  const Json& now = At(rail, "round_trip_seconds");
  const Json& least = At(rail, "least_round_trip_seconds");
  if (!now.is_number() || !IsKnown(least)) return kMissing;
  return HumanTime(std::max(now.get<double>() - least.get<double>(), 0.0));
}

std::string RateAt(const Json& object, const char* key) {
  const Json& rate = At(object, key);
  return rate.is_number() ? HumanRate(std::max(rate.get<double>(), 0.0)) : kMissing;
}

/// Prints what is known of the fabric's links; nothing if nothing is.
void PrintFabricLinks(const Json& document, std::string* text) {
  TextTable table({"link", "stated", "plans count on", "measured", "full", "sure", "seen"}, 1);
  for (const Json& link : ListAt(At(document, "cluster"), "fabric_links")) {
    const Json& full = At(link, "full");
    const Json& confidence = At(link, "confidence");
    const Json& age = At(link, "age_seconds");
    table.Add({TextAt(link, "from") + " to " + TextAt(link, "to"),
               RateAt(link, "stated_bytes_per_second"), RateAt(link, "planned_bytes_per_second"),
               RateAt(link, "measured_bytes_per_second"),
               full.is_boolean() ? (full.get<bool>() ? "yes" : "no") : kMissing,
               confidence.is_number() ? ShareOf(confidence.get<double>(), 1) : kMissing,
               age.is_number() ? HumanDuration(age.get<double>()) + " ago" : kMissing});
  }
  if (table.empty()) return;
  *text += "\n";
  table.Print(text);
}

}  // namespace

Result<std::string> LinkTable(std::string_view before, std::string_view after, double seconds) {
  HZ_ASSIGN_OR_RETURN(const Json first, ParseDocument(before));
  HZ_ASSIGN_OR_RETURN(const Json second, ParseDocument(after));
  if (!At(At(second, "cluster"), "links").is_array()) {
    return Unavailable(
        "this daemon tells of no links: it stands alone (cluster.address), or you are neither root "
        "nor the user who runs it");
  }
  std::map<RailKey, Json> earlier = RailsOf(first);
  TextTable table({"peer", "rail", "sends", "receives", "busy", "round trip", "in queues", "resent",
                   "sent so far"},
                  2);
  for (const auto& [key, rail] : RailsOf(second)) {
    const Json& was = earlier[key];
    const bool astray = At(rail, "astray").is_boolean() && At(rail, "astray").get<bool>();
    table.Add(
        {key.first, key.second + (astray ? ", now another way" : ""),
         RateOf(was, rail, "sent_bytes", seconds), RateOf(was, rail, "received_bytes", seconds),
         ShareOf(Growth(was, rail, "busy_seconds"), seconds), RoundTripOf(rail), QueueOf(rail),
         ShareOf(Growth(was, rail, "resent_packets"), Growth(was, rail, "sent_packets")),
         BytesAt(rail, "sent_bytes")});
  }
  std::string text;
  if (table.empty()) text = "no links with other daemons\n";
  if (!table.empty()) table.Print(&text);
  PrintNics(first, second, seconds, &text);
  PrintFabricLinks(second, &text);
  PrintController(second, kMostJobs, &text);
  return text;
}

}  // namespace harmonaize
