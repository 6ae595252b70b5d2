#include "cli/elasticity/elasticity_table.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/human_units.h"
#include "cli/json_view.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

/// Adds a table under its title, unless the table is empty.
void AddTable(const char* title, const TextTable& table, std::string* text) {
  if (table.empty()) return;
  text->append("\n").append(title).append("\n");
  table.Print(text);
}

TextTable HostsOf(const Json& json) {
  TextTable table({"host", "places", "free", "coming", "links busy with others"}, 1);
  for (const Json& host : ListAt(json, "hosts")) {
    table.Add({TextAt(host, "host"), TextAt(host, "places"), TextAt(host, "free"),
               TextAt(host, "coming"), PercentAt(host, "link_load")});
  }
  return table;
}

/// Returns where a job has ranks, and could have more, as "a 2+1, b 0+4".
std::string WhereText(const Json& job) {
  std::string text;
  for (const Json& host : ListAt(job, "hosts")) {
    text += fmt::format("{}{} {}+{}", text.empty() ? "" : ", ", TextAt(host, "host"),
                        TextAt(host, "ranks"), TextAt(host, "room"));
  }
  return text.empty() ? std::string(kMissing) : text;
}

TextTable JobsOf(const Json& json) {
  TextTable table(
      {"job", "tenant", "goal", "ranks", "least", "most", "step", "step time", "ranks + more"}, 3);
  for (const Json& job : ListAt(json, "jobs")) {
    table.Add({TextAt(job, "name"), TextAt(job, "tenant"), TextAt(job, "goal"),
               TextAt(job, "ranks"), TextAt(job, "least_ranks"), TextAt(job, "most_ranks"),
               TextAt(job, "step"), TimeAt(job, "step_seconds"), WhereText(job)});
    const std::string why = TextAt(job, "left_alone_because");
    if (why != kMissing) table.AddNote("left alone: " + why);
    if (At(job, "step_seconds").is_null()) {
      table.AddNote("it tells of no progress, so it is not offered ranks");
    }
  }
  return table;
}

TextTable TenantsOf(const Json& json) {
  TextTable table({"tenant", "ranks", "share"}, 1);
  for (const Json& tenant : ListAt(json, "tenants")) {
    table.Add({TextAt(tenant, "tenant"), TextAt(tenant, "ranks"), TextAt(tenant, "share")});
  }
  return table;
}

TextTable WaitingOf(const Json& json) {
  TextTable table({"job", "ranks", "priority"}, 1);
  for (const Json& job : ListAt(json, "waiting")) {
    table.Add({TextAt(job, "name"), TextAt(job, "ranks"), TextAt(job, "priority")});
  }
  return table;
}

TextTable DecisionsOf(const Json& json) {
  TextTable table({"time", "job", "tenant", "host", "kind", "ranks"}, 5);
  for (const Json& decision : ListAt(json, "decisions")) {
    table.Add({MomentAt(decision, "time"), TextAt(decision, "name"), TextAt(decision, "tenant"),
               TextAt(decision, "host"), TextAt(decision, "kind"), TextAt(decision, "ranks")});
    table.AddNote(TextAt(decision, "why"));
  }
  return table;
}

std::string Heading(const Json& json) {
  if (!YesAt(json, "enabled")) {
    return "sizes do not follow the load here: 'elastic.enabled' is not set in the daemon's "
           "configuration\n";
  }
  if (YesAt(json, "decides")) return "sizes follow the load: this daemon decides\n";
  return fmt::format("sizes follow the load: the controller at {} decides, ask there\n",
                     TextAt(json, "controller"));
}

}  // namespace

Result<std::string> ElasticityTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  std::string text = Heading(json);
  AddTable("places", HostsOf(json), &text);
  AddTable("elastic jobs", JobsOf(json), &text);
  AddTable("shares", TenantsOf(json), &text);
  AddTable("jobs that wait", WaitingOf(json), &text);
  AddTable("last decisions", DecisionsOf(json), &text);
  return text;
}

}  // namespace harmonaize
