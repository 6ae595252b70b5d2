#include "cli/completion/daemon_names.h"

#include <set>
#include <utility>

#include "cli/completion/shell_words.h"
#include "cli/daemon_document.h"
#include "cli/daemon_http.h"
#include "cli/jobs/short_job_id.h"
#include "cli/json_view.h"
#include "src/base/collective.h"
#include "src/events/event_type.h"

namespace harmonaize {
namespace {

std::vector<Continuation> EventTypeNames() {
  std::vector<Continuation> names;
  std::set<std::string> families;
  for (const EventTypeInfo& info : EventTypes()) {
    names.push_back({std::string(info.name), std::string(info.when)});
    families.insert(std::string(info.family()) + ".*");
  }
  for (const std::string& family : families) names.push_back({family, "all of these"});
  return names;
}

std::vector<Continuation> CollectiveNames() {
  std::vector<Continuation> names;
  for (int i = 0; i < kCollectiveCount; ++i) {
    names.push_back({std::string(CollectiveName(static_cast<Collective>(i)))});
  }
  return names;
}

std::vector<Continuation> JobNames(const std::string& socket) {
  const Result<DaemonHttp> daemon = FindHttp(socket);
  if (!daemon.ok()) return {};
  const Result<Json> jobs = GetDocument(*daemon, "/v1/jobs");
  if (!jobs.ok()) return {};
  std::vector<Continuation> names;
  for (const Json& job : ListAt(*jobs, "jobs")) {
    const std::string id = ShortJobId(TextAt(job, "id"));
    const std::string name = TextAt(job, "name");
    const std::string kind = TextAt(job, "kind");
    if (IsPlainWord(name) && name != kMissing) {
      names.push_back({name, kind + ", since " + MomentAt(job, "began")});
    } else {
      names.push_back({id, kind + ", " + name});
    }
  }
  return names;
}

std::vector<Continuation> TokenNames(const std::string& socket) {
  const Result<DaemonHttp> daemon = FindOperatorsHttp(socket);
  if (!daemon.ok()) return {};
  const Result<Json> tokens = GetDocument(*daemon, "/v1/tokens");
  if (!tokens.ok()) return {};
  std::vector<Continuation> names;
  for (const Json& token : ListAt(*tokens, "tokens")) {
    names.push_back({TextAt(token, "id"), TextAt(token, "scope") + " " + TextAt(token, "note")});
  }
  return names;
}

std::vector<Continuation> AnnouncementNames(const std::string& socket) {
  const Result<DaemonHttp> daemon = FindOperatorsHttp(socket);
  if (!daemon.ok()) return {};
  const Result<Json> announced = GetDocument(*daemon, "/v1/hosts/this/maintenance");
  if (!announced.ok()) return {};
  std::vector<Continuation> names;
  for (const Json& one : ListAt(*announced, "announced")) {
    names.push_back({TextAt(one, "id"), TextAt(one, "kind") + ", " + TextAt(one, "state") + " " +
                                            MomentAt(one, "not_before")});
  }
  return names;
}

/// Returns the ids of the offers that have not ended.
std::vector<Continuation> OfferNames(const std::string& socket) {
  const Result<DaemonHttp> daemon = FindHttp(socket);
  if (!daemon.ok()) return {};
  const Result<Json> offers = GetDocument(*daemon, "/v1/offers?state=open");
  if (!offers.ok()) return {};
  std::vector<Continuation> names;
  for (const Json& offer : ListAt(*offers, "offers")) {
    names.push_back({TextAt(offer, "id"), TextAt(offer, "kind") + ", " + TextAt(offer, "state")});
  }
  return names;
}

/// Returns the ids of the events that this user can answer.
std::vector<Continuation> EventNames(const std::string& socket) {
  const Result<DaemonHttp> daemon = FindTenantsHttp(socket);
  if (!daemon.ok()) return {};
  const Result<Json> promises = GetDocument(*daemon, "/v1/promises");
  if (!promises.ok()) return {};
  std::vector<Continuation> names;
  for (const Json& id : ListAt(*promises, "answerable")) names.push_back({TextOf(id), ""});
  return names;
}

std::vector<Continuation> HostNames(const std::string& socket) {
  const Result<std::string> status = FetchDaemonStatus(socket);
  if (!status.ok()) return {};
  const Result<Json> document = ParseDocument(*status);
  if (!document.ok()) return {};
  const Json& cluster = At(*document, "cluster");
  std::set<std::string> hosts;
  if (At(cluster, "address").is_string()) hosts.insert(TextAt(cluster, "address"));
  for (const Json& link : ListAt(cluster, "links")) hosts.insert(TextAt(link, "peer"));
  std::vector<Continuation> names;
  for (const std::string& host : hosts) names.push_back({host});
  return names;
}

}  // namespace

std::vector<Continuation> NamesOf(std::string_view kind, const std::string& socket) {
  if (kind == "TYPES") return EventTypeNames();
  if (kind == "COLLECTIVE") return CollectiveNames();
  std::vector<Continuation> names;
  if (kind == "JOB") names = JobNames(socket);
  if (kind == "ADDRESS") names = HostNames(socket);
  if (kind == "TOKEN") names = TokenNames(socket);
  if (kind == "ANNOUNCEMENT") names = AnnouncementNames(socket);
  if (kind == "OFFER") names = OfferNames(socket);
  if (kind == "EVENT") names = EventNames(socket);
  std::erase_if(names, [](const Continuation& name) { return !IsPlainWord(name.word); });
  return names;
}

}  // namespace harmonaize
