#include "cli/ticket/ticket_table.h"

#include <fmt/format.h>

#include "cli/json_view.h"
#include "cli/text_table.h"

namespace harmonaize {

Result<std::string> TicketTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  TextTable table({"id", "uses left", "expires", "made"}, 4);
  for (const Json& ticket : ListAt(json, "tickets")) {
    table.Add({TextAt(ticket, "id"), TextAt(ticket, "uses"), MomentAt(ticket, "expires"),
               MomentAt(ticket, "made")});
  }
  std::string text;
  if (table.empty()) text = "no tickets\n";
  if (!table.empty()) table.Print(&text);
  if (CountAt(json, "more") > 0) text += fmt::format("and {} more\n", CountAt(json, "more"));
  text += fmt::format("newcomers that wait: {}\n", TextAt(json, "waiting"));
  return text;
}

}  // namespace harmonaize
