#include "cli/jobs/job_search.h"

#include <algorithm>
#include <set>

namespace harmonaize {
namespace {

std::string StringAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

Status SeveralAre(const std::string& which, const char* what) {
  return InvalidUsage("{} '{}'; say which by the id that `harmonaize jobs` shows", what, which);
}

}  // namespace

bool IsWholeJobId(std::string_view text) {
  constexpr size_t kLength = 32;
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == kLength && std::all_of(text.begin(), text.end(), is_digit);
}

Result<std::string> FindJobId(const Json& jobs, const std::string& which) {
  std::string named;
  std::set<std::string> tenants;
  std::set<std::string> begin_so;
  // Jobs are listed in the order in which they began.
  for (const Json& job : ListAt(jobs, "jobs")) {
    const std::string id = StringAt(job, "id");
    if (id == which) return id;
    if (!which.empty() && id.starts_with(which)) begin_so.insert(id);
    if (which.empty() || StringAt(job, "name") != which) continue;
    named = id;
    tenants.insert(StringAt(job, "tenant"));
  }
  if (tenants.size() > 1) return SeveralAre(which, "several tenants have a job named");
  if (!named.empty()) return named;
  if (begin_so.size() > 1) return SeveralAre(which, "the ids of several jobs begin with");
  if (begin_so.size() == 1) return *begin_so.begin();
  return Unavailable(
      "there is no job '{}' at this daemon; `harmonaize jobs` lists those that it knows", which);
}

Result<std::string> AskForJobId(const DaemonHttp& daemon, const std::string& which) {
  HZ_ASSIGN_OR_RETURN(const Json jobs, GetDocument(daemon, "/v1/jobs"));
  return FindJobId(jobs, which);
}

}  // namespace harmonaize
