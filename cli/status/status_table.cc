#include "cli/status/status_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/json_view.h"
#include "cli/status/communicator_label.h"
#include "cli/status/stock_nccl_note.h"
#include "cli/status/tuning_table.h"
#include "cli/status/waiting_notes.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

/// Returns a tenant's name with what events and promises call it, "alice (uid 1000)", where the two
/// differ.
std::string TenantName(const Json& tenant) {
  const std::string name = TextAt(tenant, "name");
  const std::string by_number = "uid " + TextAt(tenant, "uid");
  return name == kMissing || name == by_number ? by_number
                                               : fmt::format("{} ({})", name, by_number);
}

/// Describes the other daemons that this one works with, and those that it cannot work with.
std::string OtherDaemons(const Json& cluster) {
  std::string text = fmt::format("other daemons reach it at {}; linked with {}\n",
                                 TextAt(cluster, "address"), TextAt(cluster, "linked_daemons"));
  const Json& latest = At(At(cluster, "protocol"), "latest");
  const auto is_older = [&latest](const Json& link) {
    const Json& version = At(link, "protocol");
    return version.is_number_unsigned() && latest.is_number_unsigned() && version < latest;
  };
  const Json& links = ListAt(cluster, "links");
  const auto older = std::count_if(links.begin(), links.end(), is_older);
  if (older > 0) {
    text += fmt::format(
        "of these, {} of an earlier release: what is new in this one works with "
        "them only once they are updated\n",
        older);
  }
  const Json& others = At(cluster, "daemons_of_other_releases");
  if (!others.is_object()) return text;
  for (const auto& [address, why] : others.items()) {
    text += fmt::format("it cannot work with {}\n", why.is_string() ? TextOf(why) : address);
  }
  return text;
}

}  // namespace

Result<std::string> StatusTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  const Json& daemon = At(json, "daemon");
  std::string text = fmt::format("harmonaized {}, pid {}, up {}, {} workers, listening at {}\n",
                                 TextAt(daemon, "version"), TextAt(daemon, "pid"),
                                 DurationAt(daemon, "uptime_seconds"), TextAt(daemon, "workers"),
                                 TextAt(daemon, "socket"));

  const Json& cluster = At(json, "cluster");
  if (cluster.is_object()) text += OtherDaemons(cluster);

  TextTable tenants(
      {"tenant", "sessions", "regions", "shared", "communicators", "operations", "bytes"}, 1);
  TextTable communicators({"communicator", "job", "tenant", "state", "ranks", "hosts", "operations",
                           "bytes", "inline operations", "inline bytes"},
                          4);
  for (const Json& tenant : ListAt(json, "tenants")) {
    const Json& own = ListAt(tenant, "communicators");
    tenants.Add({TenantName(tenant), TextAt(tenant, "sessions"), TextAt(tenant, "regions"),
                 BytesAt(tenant, "region_bytes"), std::to_string(own.size()),
                 TextAt(tenant, "operations"), BytesAt(tenant, "bytes")});
    for (const Json& communicator : own) {
      communicators.Add(
          {CommunicatorIdOf(communicator), JobLabelOf(communicator), TenantName(tenant),
           TextAt(communicator, "state"), TextAt(communicator, "ranks"),
           At(communicator, "hosts").is_null() ? "1" : TextAt(communicator, "hosts"),
           TextAt(communicator, "operations"), BytesAt(communicator, "bytes"),
           TextAt(communicator, "inline_operations"), BytesAt(communicator, "inline_bytes")});
      for (std::string& note : StockNcclNote(communicator)) {
        communicators.AddNote(std::move(note));
      }
      for (std::string& note : WaitingNotes(communicator)) {
        communicators.AddNote(std::move(note));
      }
      if (At(communicator, "failure").is_string()) {
        communicators.AddNote(TextAt(communicator, "failure"));
      }
    }
  }
  if (tenants.empty()) return text + "\nno tenants\n";
  text += "\n";
  tenants.Print(&text);
  if (!communicators.empty()) {
    text += "\n";
    communicators.Print(&text);
  }
  PrintTuning(json, &text);
  return text;
}

}  // namespace harmonaize
