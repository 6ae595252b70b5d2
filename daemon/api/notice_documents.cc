#include "daemon/api/notice_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/job_events/event_rooms.h"
#include "daemon/jobs/job_table.h"
#include "daemon/tenant/tenant.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/random.h"
#include "src/base/time_text.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Most jobs that one answer lists of those that a drain waits for. People read a few.
constexpr size_t kMostJobsListed = 256;

/// Returns the tenant's name as all tables for operators have it: the user's name where the tenant
/// is known to this daemon.
std::string TenantName(EngineRooms& rooms, const TenantIdentity& identity) {
  const auto& tenants = rooms.report_sources().tenants->all();
  const auto found = tenants.find(identity.number);
  const bool is_here = found != tenants.end() && found->second->identity.name == identity.name;
  return is_here ? found->second->name() : identity.name;
}

/// Returns the job that was told; nullptr if it has not been here of late.
const Job* JobOf(EngineRooms& rooms, const ToldNotice& told) {
  const std::optional<JobIdentity> id = ParseJob(told.job);
  return id.has_value() ? rooms.jobs().FindById(*id, told.tenant.number) : nullptr;
}

/// Returns whether the job that was told has no communicator here any more. If it comes again it is
/// told again.
bool HasEnded(EngineRooms& rooms, const ToldNotice& told) {
  const Job* const job = JobOf(rooms, told);
  return job == nullptr || !job->is_here();
}

json DescribeForOperators(EngineRooms& rooms, const ToldNotice& told) {
  json description = DescribeAnswer(told);
  description["tenant"] = TenantName(rooms, told.tenant);
  const Job* const job = JobOf(rooms, told);
  description["job_name"] = job == nullptr ? std::string() : job->name;
  description["ended"] = HasEnded(rooms, told);
  return description;
}

json Describe(const Promise& promise, bool for_operators) {
  json description = {{"id", promise.id},
                      {"kind", kNoticeKinds[static_cast<size_t>(promise.kind)]},
                      {"promised_from", TimeOrNull(promise.promised_from_seconds)},
                      {"began", TimeOrNull(promise.began_seconds)},
                      {"ended", TimeOrNull(promise.ended_seconds)},
                      {"withdrawn", promise.withdrawn},
                      {"kept", nullptr}};
  if (const std::optional<bool> kept = promise.kept()) description["kept"] = *kept;
  if (!for_operators) return description;
  description["source"] = promise.source;
  description["announced"] = TimeOrNull(promise.announced_seconds);
  if (promise.promised_from_seconds != 0) {
    description["promised_notice_seconds"] =
        std::max(0.0, promise.promised_from_seconds - promise.announced_seconds);
  }
  if (promise.began_seconds != 0) {
    description["notice_seconds"] =
        std::max(0.0, promise.began_seconds - promise.announced_seconds);
  }
  return description;
}

struct Waited {
  const Job* job = nullptr;
  int communicators = 0;
  int ranks = 0;  ///< On this host, of the largest communicator.
};

int RanksHere(const Communicator& communicator) {
  int ranks = 0;
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    if (!communicator.IsRemote(rank) && !communicator.HasLeft(rank)) ++ranks;
  }
  return ranks;
}

/// Returns what jobs were told of the drain under way.
std::vector<const ToldNotice*> ToldOfDrain(EngineRooms& rooms) {
  for (const Announcements::Active& active : rooms.events().announcements().All()) {
    if (active.notice.id != rooms.events().drain().id() || active.promise == 0) continue;
    return rooms.events().promises().ToldOf(active.promise);
  }
  return {};
}

/// Returns a job's answer; nulls where it has given none.
json AnswerOf(const Job& job, const std::vector<const ToldNotice*>& told) {
  const auto found = std::find_if(told.begin(), told.end(), [&](const ToldNotice* one) {
    return one->job == job.id.text() && one->tenant.name == job.tenant->identity.name;
  });
  if (found == told.end()) {
    return {{"acknowledged", nullptr}, {"asked", nullptr}, {"asked_until", nullptr}};
  }
  return {{"acknowledged", TimeOrNull((*found)->acknowledged_seconds)},
          {"asked", TimeOrNull((*found)->asked_seconds)},
          {"asked_until", TimeOrNull((*found)->asked_until_seconds)}};
}

json JobsThatAreWaitedFor(EngineRooms& rooms) {
  const std::vector<const ToldNotice*> told = ToldOfDrain(rooms);
  std::map<const Job*, Waited> by_job;
  for (const auto& [id, communicator] : rooms.report_sources().communicators->all()) {
    Waited& waited = by_job[communicator->job()];
    waited.job = communicator->job();
    ++waited.communicators;
    waited.ranks = std::max(waited.ranks, RanksHere(*communicator));
  }
  json jobs = json::array();
  for (const auto& [job, waited] : by_job) {
    if (jobs.size() == kMostJobsListed) break;
    jobs.push_back({{"job", job->id.text()},
                    {"name", job->name},
                    {"tenant", job->tenant->name()},
                    {"communicators", waited.communicators},
                    {"ranks", waited.ranks},
                    {"since", TimeOrNull(job->began_seconds)}});
    jobs.back().update(AnswerOf(*job, told));
  }
  return {{"jobs", std::move(jobs)}, {"job_count", by_job.size()}};
}

}  // namespace

json TimeOrNull(double unix_seconds) {
  if (unix_seconds == 0) return nullptr;
  return TimeText(static_cast<int64_t>(unix_seconds * 1e9));
}

json Describe(const CloudNotice& notice) {
  json description = {{"source", notice.source},
                      {"id", notice.id},
                      {"kind", kNoticeKinds[static_cast<size_t>(notice.kind)]},
                      {"state", kNoticeStates[static_cast<size_t>(notice.state)]},
                      {"survives", notice.survives},
                      {"text", notice.text},
                      {"overdue", IsOverdue(notice)},
                      {"not_before", nullptr},
                      {"duration_seconds", nullptr}};
  if (notice.not_before_seconds.has_value()) {
    description["not_before"] = TimeText(*notice.not_before_seconds * 1'000'000'000);
  }
  if (notice.duration_seconds.has_value()) {
    description["duration_seconds"] = *notice.duration_seconds;
  }
  return description;
}

json DescribeWithAnswers(EngineRooms& rooms, const Announcements::Active& active) {
  json description = Describe(active.notice);
  size_t acknowledged = 0;
  size_t asked = 0;
  size_t ended = 0;
  double asked_until = 0;
  json answers = json::array();
  if (active.promise != 0) {
    for (const ToldNotice* told : rooms.events().promises().ToldOf(active.promise)) {
      answers.push_back(DescribeForOperators(rooms, *told));
      if (HasEnded(rooms, *told)) {
        ++ended;
        continue;
      }
      acknowledged += told->is_ready() ? 1 : 0;
      asked += told->asks_for_more() ? 1 : 0;
      if (told->asks_for_more()) asked_until = std::max(asked_until, told->asked_until_seconds);
    }
  }
  description["jobs_told"] = answers.size() - ended;
  description["jobs_ended"] = ended;
  description["jobs_acknowledged"] = acknowledged;
  description["jobs_asked_for_more_time"] = asked;
  description["asked_until"] = TimeOrNull(asked_until);
  description["answers"] = std::move(answers);
  return description;
}

json DescribeAnswer(const ToldNotice& told) {
  return {{"event", told.event_id()},
          {"type", std::string(kEventTypePrefix) + std::string(InfoOf(told.type).name)},
          {"job", told.job},
          {"ranks", told.ranks},
          {"ranks_unlisted", told.ranks_unlisted},
          {"told", TimeOrNull(told.told_seconds)},
          {"deadline", TimeOrNull(told.deadline_seconds)},
          {"acknowledged", TimeOrNull(told.acknowledged_seconds)},
          {"asked", TimeOrNull(told.asked_seconds)},
          {"asked_until", TimeOrNull(told.asked_until_seconds)}};
}

json PromisesDocument(EngineRooms& rooms, const TenantIdentity* tenant) {
  const PromiseBook& book = rooms.events().promises();
  std::map<uint64_t, json> told_of;  // by Promise::number
  json answerable = json::array();
  for (const ToldNotice& told : book.told()) {
    if (tenant != nullptr && told.tenant.name != tenant->name) continue;
    told_of[told.promise].push_back(tenant == nullptr ? DescribeForOperators(rooms, told)
                                                      : DescribeAnswer(told));
    if (rooms.events().answers().CheckOpen(told).ok() && !HasEnded(rooms, told)) {
      answerable.push_back(told.event_id());
    }
  }
  json list = json::array();
  for (const Promise& promise : book.promises()) {
    if (promise.is_empty()) continue;
    const auto told = told_of.find(promise.number);
    if (told == told_of.end() && tenant != nullptr) continue;
    json one = Describe(promise, tenant == nullptr);
    one["told"] = told == told_of.end() ? json::array() : std::move(told->second);
    list.push_back(std::move(one));
  }
  return {{"promises", std::move(list)}, {"answerable", std::move(answerable)}};
}

json DrainDocument(EngineRooms& rooms) {
  const Drain& drain = rooms.events().drain();
  const Drain::State state = drain.state();
  // Tells the daemon from the one that starts after it, for those who wait for that.
  static const std::string kInstance = fmt::format("{:016x}", RandomNumber());
  json document = {
      {"state", NameOf(state)},
      {"instance", kInstance},
      {"reason", drain.order().reason},
      {"restart", drain.order().restart},
      {"left_at_restart", nullptr},
      {"since", TimeOrNull(drain.since_seconds())},
      {"deadline", TimeOrNull(static_cast<double>(drain.order().deadline_seconds.value_or(0)))},
      {"communicators", rooms.report_sources().communicators->all().size()}};
  if (const auto left = drain.left_at_restart()) document["left_at_restart"] = *left;
  document.update(JobsThatAreWaitedFor(rooms));
  return document;
}

}  // namespace harmonaize::daemon
