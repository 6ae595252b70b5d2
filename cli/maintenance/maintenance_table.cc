#include "cli/maintenance/maintenance_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/jobs/short_job_id.h"
#include "cli/json_view.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

/// Returns the later of a job's two answers, if it has given any.
std::string LastAnswer(const Json& answer) {
  const bool ready = !At(answer, "acknowledged").is_null();
  const bool asks = !At(answer, "asked").is_null();
  if (asks && (!ready || TextAt(answer, "asked") >= TextAt(answer, "acknowledged"))) {
    return "asks for time until " + MomentAt(answer, "asked_until");
  }
  return ready ? "acknowledged " + MomentAt(answer, "acknowledged") : "not acknowledged";
}

std::string AnswerNote(const Json& answer) {
  const std::string name = TextAt(answer, "job_name");
  const std::string id = ShortJobId(TextAt(answer, "job"));
  const bool named = !name.empty() && name != kMissing;
  return fmt::format("  {} of {}: {}", named ? fmt::format("{} ({})", name, id) : id,
                     TextAt(answer, "tenant"), LastAnswer(answer));
}

std::string StateOf(const Json& announced) {
  return TextAt(announced, "state") + (YesAt(announced, "overdue") ? ", overdue" : "");
}

/// Returns what is announced, the earliest first; what has no time comes last.
std::vector<Json> ByTime(const Json& announced) {
  std::vector<Json> sorted(announced.begin(), announced.end());
  const auto key = [](const Json& one) {
    const bool timed = !At(one, "not_before").is_null();
    return std::pair(!timed, timed ? TextAt(one, "not_before") : TextAt(one, "id"));
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Json& one, const Json& other) { return key(one) < key(other); });
  return sorted;
}

}  // namespace

Result<std::string> MaintenanceTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  TextTable table({"id", "source", "kind", "state", "not before", "for", "text", "acknowledged"},
                  7);
  for (const Json& one : ByTime(ListAt(json, "announced"))) {
    table.Add(
        {TextAt(one, "id"), TextAt(one, "source"), TextAt(one, "kind"), StateOf(one),
         MomentAt(one, "not_before"), DurationAt(one, "duration_seconds"), TextAt(one, "text"),
         fmt::format("{} of {}", CountAt(one, "jobs_acknowledged"), CountAt(one, "jobs_told"))});
    for (const Json& answer : ListAt(one, "answers")) table.AddNote(AnswerNote(answer));
  }
  if (table.empty()) return std::string("nothing is announced for this host\n");
  std::string text;
  table.Print(&text);
  return text;
}

}  // namespace harmonaize
