#include "cli/agents/agent_table.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "cli/human_units.h"
#include "cli/jobs/short_job_id.h"
#include "cli/offers/offer_table.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

/// Silence, in seconds, after which people are told that an agent was not heard of: agents renew
/// themselves every second.
constexpr double kSilentSeconds = 5;

/// Columns of names and words, which are aligned left.
constexpr size_t kLeftColumns = 5;

double NumberAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_number() ? value.get<double>() : 0;
}

std::string JobText(const Json& agent) {
  const std::string name = TextAt(agent, "name");
  const bool named = !name.empty() && name != kMissing;
  return named ? name : ShortJobId(TextAt(agent, "job"));
}

std::string TicketText(const Json& agent) {
  const Json& has = At(agent, "has_ticket");
  if (!has.is_boolean()) return kMissing;
  return has.get<bool>() ? "yes" : "no";
}

/// Returns the processes that an agent is to stop, as "12, 13"; "": none.
std::string LeaveText(const Json& agent) {
  std::string processes;
  for (const Json& process : ListAt(agent, "leave")) {
    processes += (processes.empty() ? "" : ", ") + TextOf(process);
  }
  return processes;
}

void AddNotes(const Json& agent, TextTable* table) {
  if (At(agent, "problem").is_string()) {
    table->AddNote(TextAt(agent, "problem"));
  } else if (TextAt(agent, "standing") == "waiting") {
    table->AddNote(
        "the job has no ranks on this host yet, and no ticket (run --ticket) leads to others");
  }
  const double silent = NumberAt(agent, "lease_seconds") - NumberAt(agent, "gone_in_seconds");
  if (silent > kSilentSeconds) {
    table->AddNote(fmt::format("not heard of for {}: its launcher has ended, or is stopped",
                               HumanDuration(silent)));
  }
  for (const Json& offer : ListAt(agent, "offers")) table->AddNote(OfferLine(offer));
  if (const std::string processes = LeaveText(agent); !processes.empty()) {
    table->AddNote("is to stop now: " + processes);
  }
}

/// Rows with a column for tenants where the document names them, which it does for operators.
class AgentRows {
 public:
  explicit AgentRows(bool with_tenants)
      : with_tenants_(with_tenants), table_(Head(with_tenants), kLeftColumns + with_tenants) {}

  void AddOwn(const Json& agent) {
    Add(agent, {TextAt(agent, "id"), JobText(agent), "this host", TextAt(agent, "standing"),
                MomentAt(agent, "began"), TextAt(agent, "places"), TextAt(agent, "ranks_here"),
                TextAt(agent, "ranks"), TicketText(agent), TextAt(agent, "ties"),
                DurationAt(agent, "gone_in_seconds")});
    AddNotes(agent, &table_);
  }
  void AddElsewhere(const Json& agent) {
    const std::string address = TextAt(agent, "address");
    const bool is_named = !address.empty() && address != kMissing;
    Add(agent, {kMissing, JobText(agent), is_named ? address : "another", kMissing, kMissing,
                TextAt(agent, "places"), kMissing, kMissing, kMissing, kMissing,
                DurationAt(agent, "gone_in_seconds")});
  }
  const TextTable& table() const { return table_; }

 private:
  static std::vector<std::string> Head(bool with_tenants) {
    std::vector<std::string> head = {"agent",  "job",         "host",       "standing",
                                     "since",  "free places", "ranks here", "of",
                                     "ticket", "ties",        "gone in"};
    if (with_tenants) head.insert(head.begin() + 1, "tenant");
    return head;
  }
  void Add(const Json& agent, std::vector<std::string> row) {
    if (with_tenants_) row.insert(row.begin() + 1, TextAt(agent, "tenant"));
    table_.Add(std::move(row));
  }

  const bool with_tenants_;
  TextTable table_;
};

bool NamesTenants(const Json& agents) {
  return !agents.empty() && At(agents.front(), "tenant").is_string();
}

Json OfJob(const Json& agents, const std::string& job) {
  Json some = Json::array();
  for (const Json& agent : agents) {
    if (TextAt(agent, "job") == job) some.push_back(agent);
  }
  return some;
}

}  // namespace

Json AgentsOfJob(const Json& document, const std::string& job) {
  return {{"agents", OfJob(ListAt(document, "agents"), job)},
          {"elsewhere", OfJob(ListAt(document, "elsewhere"), job)}};
}

std::string AgentTable(const Json& document) {
  const Json& own = ListAt(document, "agents");
  const Json& elsewhere = ListAt(document, "elsewhere");
  AgentRows rows(NamesTenants(own) || NamesTenants(elsewhere));
  for (const Json& agent : own) rows.AddOwn(agent);
  for (const Json& agent : elsewhere) rows.AddElsewhere(agent);
  if (rows.table().empty()) return "no agents\n";
  std::string text;
  rows.table().Print(&text);
  return text;
}

}  // namespace harmonaize
