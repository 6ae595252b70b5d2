#include "cli/promises/promise_table.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/json_view.h"
#include "cli/offers/offer_table.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

const char* Outcome(const Json& promise) {
  if (At(promise, "kept").is_boolean()) return YesAt(promise, "kept") ? "kept" : "broken";
  if (YesAt(promise, "withdrawn")) return "called off";
  if (!At(promise, "began").is_null()) return "no notice was promised";
  return At(promise, "ended").is_null() ? "open" : "not known";
}

/// Returns for each job that was told whether it acknowledged what it was told last. A job is told
/// anew when what was promised changes.
std::vector<bool> JobsOf(const Json& promise) {
  std::map<std::pair<std::string, std::string>, bool> jobs;  // by job and tenant
  for (const Json& told : ListAt(promise, "told")) {
    jobs[{TextAt(told, "job"), TextAt(told, "tenant")}] = !At(told, "acknowledged").is_null();
  }
  std::vector<bool> acknowledged;
  for (const auto& [job, yes] : jobs) acknowledged.push_back(yes);
  return acknowledged;
}

}  // namespace

Result<std::string> PromiseTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  TextTable table({"id", "kind", "promised from", "began", "outcome", "jobs told", "acknowledged"},
                  5);
  for (const Json& promise : ListAt(json, "promises")) {
    const std::vector<bool> jobs = JobsOf(promise);
    table.Add({TextAt(promise, "id"), TextAt(promise, "kind"), MomentAt(promise, "promised_from"),
               MomentAt(promise, "began"), Outcome(promise), std::to_string(jobs.size()),
               std::to_string(std::count(jobs.begin(), jobs.end(), true))});
  }
  std::string text;
  if (!table.empty()) table.Print(&text);
  const std::string offers = AgreedOfferTable(ListAt(json, "offers"));
  if (!text.empty() && !offers.empty()) text += "\n";
  text += offers;
  return text.empty() ? std::string("no promises\n") : text;
}

}  // namespace harmonaize
