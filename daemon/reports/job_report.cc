#include "daemon/reports/job_report.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/config/config.h"
#include "daemon/diagnosis/diagnosis.h"
#include "daemon/formation/pending_formations.h"
#include "daemon/jobs/job_table.h"
#include "daemon/multihost/host_group.h"
#include "daemon/reports/communicator_parts.h"
#include "daemon/reports/forming_report.h"
#include "daemon/reports/stuck_report.h"
#include "daemon/tenant/session.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/clock.h"
#include "src/base/time_text.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Most ranks of a communicator that are listed one by one: a job may have a million.
constexpr int kMostListedRanks = 4096;
/// Most communicators of a job that form and are listed: a tenant may begin thousands.
constexpr size_t kMostForming = 64;

json TimeOrNull(double unix_seconds) {
  if (unix_seconds == 0) return nullptr;
  return TimeText(static_cast<int64_t>(unix_seconds * 1e9));
}

/// Lists a communicator's ranks. Only an operator is told of processes.
json RanksOf(const Communicator& communicator, bool for_operator) {
  json ranks = json::array();
  for (int rank = 0; rank < std::min(communicator.ranks(), kMostListedRanks); ++rank) {
    const Member* const member = communicator.member(rank);
    json one = {{"rank", rank},
                {"here", !communicator.IsRemote(rank)},
                {"left", communicator.HasLeft(rank)}};
    if (member != nullptr && for_operator) {
      one["process"] = member->session->process();
      one["program"] = member->session->program();
    }
    ranks.push_back(std::move(one));
  }
  return ranks;
}

/// Returns how many operations were timed, and how long they took together.
json TimesOf(const HostGroup& group) {
  uint64_t operations = 0;
  double seconds = 0;
  for (const PlanRecord& record : group.plans().Records()) {
    operations += record.operations;
    seconds += record.seconds;
  }
  return {{"operations", operations}, {"seconds", seconds}};
}

json Describe(const Communicator& communicator, uint64_t now_ns, bool for_operator) {
  const InlineSegment* const segment = communicator.inline_segment();
  json description = {
      {"id", communicator.handle()},
      {"name", communicator.name()},
      {"state", StateName(communicator.state())},
      {"size", communicator.ranks()},
      {"operations", communicator.operations() + (segment == nullptr ? 0 : segment->operations())},
      {"bytes", communicator.bytes() + (segment == nullptr ? 0 : segment->bytes_moved())},
      {"ranks", RanksOf(communicator, for_operator)},
      {"waiting", DescribeWaiting(communicator.Waiting(now_ns))}};
  DescribeKind(communicator, &description);
  if (const DeadlineWatch& deadlines = communicator.deadlines(); deadlines.operations() > 0) {
    description["deadline"] = {{"operations", deadlines.operations()},
                               {"missed", deadlines.missed()}};
  }
  if (!communicator.failure().ok()) description["failure"] = communicator.failure().message();
  if (const HostGroup* const group = communicator.host_group()) {
    description["spans_hosts"] = true;
    description["timed"] = TimesOf(*group);
    const PlanControl* const control = group->plans().control();
    if (control != nullptr) {
      description["congestion"] = CongestionName(control->congestion().level());
    }
  }
  if (for_operator) description["number"] = communicator.id();
  return description;
}

json Describe(const Job& job, const Reader& reader) {
  json description = {{"id", job.id.text()},
                      {"name", job.name},
                      {"kind", JobKindName(job.kind)},
                      {"began", TimeOrNull(job.began_seconds)},
                      {"ended", TimeOrNull(job.ended_seconds)},
                      {"communicators", json::array()},
                      {"forming", json::array()},
                      {"ended_communicators",
                       {{"count", job.ended_communicators.count},
                        {"operations", job.ended_communicators.operations},
                        {"bytes", job.ended_communicators.bytes},
                        {"ranks", job.ended_communicators.ranks}}},
                      {"stuck", json::array()}};
  if (reader.is_operator) description["tenant"] = job.tenant->name();
  return description;
}

using JobDescriptions = std::unordered_map<const Job*, json>;

/// Adds a verdict to a job's description.
void AddStuck(const Job& job, json verdict, json* description) {
  verdict["job"] = job.id.text();
  verdict["job_name"] = job.name;
  (*description)["stuck"].push_back(std::move(verdict));
}

/// Adds what forms at this home to its jobs, and to what is stuck where it has waited for long.
void AddForming(const ReportSources& sources, uint64_t now_ns, JobDescriptions* jobs) {
  const auto late_after = static_cast<uint64_t>(sources.config->late_after_seconds * 1e9);
  for (const auto& [key, pending] : sources.forming->all()) {
    const auto job = jobs->find(pending.job.job());
    if (job == jobs->end() || job->second["forming"].size() == kMostForming) continue;
    const Formation& formation = *pending.formation;
    job->second["forming"].push_back(DescribeForming(formation, now_ns));
    if (formation.age_ns(now_ns) < late_after) continue;
    AddStuck(*job->first, DescribeFormingVerdict(formation, now_ns), &job->second);
  }
}

}  // namespace

json JobReport(const ReportSources& sources, const Reader& reader) {
  const uint64_t now_ns = MonotonicNanoseconds();
  JobDescriptions jobs;
  std::vector<const Job*> order;
  for (const auto& [key, job] : sources.jobs->all()) {
    if (!reader.is_operator && key.first != reader.tenant) continue;
    jobs.emplace(job.get(), Describe(*job, reader));
    order.push_back(job.get());
  }
  for (const auto& [id, communicator] : sources.communicators->all()) {
    const auto job = jobs.find(communicator->job());
    if (job == jobs.end()) continue;
    const Verdict* const verdict = sources.diagnosis->Of(*communicator);
    if (verdict != nullptr) {
      AddStuck(*job->first, DescribeVerdict(*communicator, *verdict, now_ns), &job->second);
    }
    // A home without ranks of the communicator has nothing to show of it.
    if (!communicator->has_ranks_here()) continue;
    job->second["communicators"].push_back(Describe(*communicator, now_ns, reader.is_operator));
  }
  AddForming(sources, now_ns, &jobs);
  json list = json::array();
  std::stable_sort(order.begin(), order.end(),
                   [](const Job* a, const Job* b) { return a->began_seconds < b->began_seconds; });
  for (const Job* const job : order) list.push_back(std::move(jobs.at(job)));
  return list;
}

}  // namespace harmonaize::daemon
