#include "cli/maintenance/maintenance_table.h"

#include <fmt/format.h>

#include "cli/json_view.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

std::string AnswerNote(const Json& answer) {
  std::string note =
      fmt::format("  {} of {}: ", TextAt(answer, "job").substr(0, 8), TextAt(answer, "tenant"));
  if (!At(answer, "acknowledged").is_null()) {
    note += "acknowledged " + MomentAt(answer, "acknowledged");
  } else {
    note += "not acknowledged";
  }
  if (!At(answer, "asked_until").is_null()) {
    note += ", asks for time until " + MomentAt(answer, "asked_until");
  }
  return note;
}

}  // namespace

Result<std::string> MaintenanceTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  TextTable table({"id", "source", "kind", "state", "not before", "for", "text", "acknowledged"},
                  7);
  for (const Json& one : ListAt(json, "announced")) {
    table.Add(
        {TextAt(one, "id"), TextAt(one, "source"), TextAt(one, "kind"), TextAt(one, "state"),
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
