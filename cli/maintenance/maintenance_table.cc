#include "cli/maintenance/maintenance_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/jobs/short_job_id.h"
#include "cli/json_view.h"
#include "cli/maintenance/answer_text.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

/// Jobs that have ended of which a line each is shown. On a host of many short jobs more would hide
/// those that can still answer.
constexpr uint64_t kEndedShown = 4;

std::string AnswerNote(const Json& answer) {
  const std::string name = TextAt(answer, "job_name");
  const std::string id = ShortJobId(TextAt(answer, "job"));
  const bool named = !name.empty() && name != kMissing;
  return fmt::format("  {} of {}: {}", named ? fmt::format("{} ({})", name, id) : id,
                     TextAt(answer, "tenant"), AnswerText(answer));
}

/// Adds a line for each job that was told; those that have ended come last.
void AddAnswers(const Json& answers, TextTable* table) {
  uint64_t ended = 0;
  for (const Json& answer : answers) {
    if (!YesAt(answer, "ended")) table->AddNote(AnswerNote(answer));
  }
  for (const Json& answer : answers) {
    if (YesAt(answer, "ended") && ++ended <= kEndedShown) table->AddNote(AnswerNote(answer));
  }
  if (ended > kEndedShown) {
    table->AddNote(fmt::format("  and {} more that have ended", ended - kEndedShown));
  }
}

std::string CountedAnswers(const Json& announced) {
  // Nobody is asked to answer to that.
  if (TextAt(announced, "kind") == "risk_of_reclaim") return kMissing;
  const uint64_t asking = CountAt(announced, "jobs_asked_for_more_time");
  const std::string ready = fmt::format("{} of {}", CountAt(announced, "jobs_acknowledged"),
                                        CountAt(announced, "jobs_told"));
  if (asking == 0) return ready;
  return fmt::format("{}, {} for more time", ready,
                     asking == 1 ? "1 asks" : fmt::format("{} ask", asking));
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
    table.Add({TextAt(one, "id"), TextAt(one, "source"), TextAt(one, "kind"), StateOf(one),
               MomentAt(one, "not_before"), DurationAt(one, "duration_seconds"),
               TextAt(one, "text"), CountedAnswers(one)});
    AddAnswers(ListAt(one, "answers"), &table);
  }
  if (table.empty()) return std::string("nothing is announced for this host\n");
  std::string text;
  table.Print(&text);
  return text;
}

}  // namespace harmonaize
