#include "cli/token/token_table.h"

#include "cli/json_view.h"
#include "cli/text_table.h"

namespace harmonaize {

Result<std::string> TokenTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  TextTable table({"id", "scope", "tenant", "expires", "created", "note"}, 6);
  for (const Json& token : ListAt(json, "tokens")) {
    table.Add({TextAt(token, "id"), TextAt(token, "scope"), TextAt(token, "tenant"),
               MomentAt(token, "expires"), MomentAt(token, "created"), TextAt(token, "note")});
  }
  if (table.empty()) return std::string("no tokens\n");
  std::string text;
  table.Print(&text);
  return text;
}

}  // namespace harmonaize
