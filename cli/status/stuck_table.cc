#include "cli/status/stuck_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/jobs/short_job_id.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

/// Most ranks in one row; --json has all.
constexpr size_t kMostRanks = 8;

std::string NameOr(const Json& object, const char* name, const std::string& id) {
  const std::string text = TextAt(object, name);
  return text.empty() || text == kMissing ? id : text;
}

/// Returns "1, 3", and " of tp0" behind it where the ranks are another communicator's.
std::string RanksOf(const Json& verdict, const std::string& communicator) {
  const Json& roots = ListAt(verdict, "roots");
  std::string where;
  std::vector<std::string> ranks;
  for (const Json& root : roots) {
    const std::string its = TextAt(root, "communicator");
    if (where.empty()) where = its;
    if (its == where) ranks.push_back(TextAt(root, "rank"));
  }
  if (ranks.empty()) {
    for (const Json& rank : ListAt(verdict, "ranks")) ranks.push_back(TextOf(rank));
  }
  if (ranks.empty()) return kMissing;
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), kMostRanks); ++i) {
    text += (i > 0 ? ", " : "") + ranks[i];
  }
  if (ranks.size() > kMostRanks) text += ", ...";
  const bool elsewhere =
      !where.empty() && where != communicator && where != TextAt(verdict, "communicator");
  return text + (elsewhere ? " of " + where : "");
}

}  // namespace

Result<std::string> StuckTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  const Json& verdicts = ListAt(json, "verdicts");
  if (verdicts.empty()) return std::string("nothing hangs\n");
  const std::vector<std::string> head = {"job",   "communicator", "operation", "ranks",
                                         "class", "doing",        "for",       "way out"};
  TextTable table(head, head.size());
  for (const Json& verdict : verdicts) {
    // What forms has no id yet.
    const bool forms = At(verdict, "communicator").is_null();
    const std::string communicator =
        NameOr(verdict, "communicator_name", forms ? "forming" : TextAt(verdict, "communicator"));
    table.Add({NameOr(verdict, "job_name", ShortJobId(TextAt(verdict, "job"))), communicator,
               TextAt(At(verdict, "operation"), "name"), RanksOf(verdict, communicator),
               TextAt(verdict, "class"), TextAt(verdict, "doing"),
               DurationAt(verdict, "for_seconds"), TextAt(verdict, "way_out")});
    table.AddNote(TextAt(verdict, "text"));
  }
  std::string text;
  table.Print(&text);
  return text;
}

}  // namespace harmonaize
