#include "cli/promises/promise_table.h"

#include <fmt/format.h>

#include "cli/json_view.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

const char* Outcome(const Json& promise) {
  if (At(promise, "kept").is_boolean()) return YesAt(promise, "kept") ? "kept" : "broken";
  if (YesAt(promise, "withdrawn")) return "called off";
  if (!At(promise, "began").is_null()) return "no notice was promised";
  return At(promise, "ended").is_null() ? "open" : "not known";
}

}  // namespace

Result<std::string> PromiseTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  TextTable table({"id", "kind", "promised from", "began", "outcome", "jobs told", "acknowledged"},
                  5);
  for (const Json& promise : ListAt(json, "promises")) {
    const Json& told = ListAt(promise, "told");
    size_t acknowledged = 0;
    for (const Json& one : told) acknowledged += At(one, "acknowledged").is_null() ? 0 : 1;
    table.Add({TextAt(promise, "id"), TextAt(promise, "kind"), MomentAt(promise, "promised_from"),
               MomentAt(promise, "began"), Outcome(promise), std::to_string(told.size()),
               std::to_string(acknowledged)});
  }
  if (table.empty()) return std::string("no promises\n");
  std::string text;
  table.Print(&text);
  return text;
}

}  // namespace harmonaize
