#include "daemon/reports/job_report.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/diagnosis/diagnosis.h"
#include "daemon/jobs/job_table.h"
#include "daemon/multihost/host_group.h"
#include "daemon/reports/communicator_parts.h"
#include "daemon/reports/stuck_report.h"
#include "daemon/tenant/session.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/clock.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Most ranks of a communicator that are listed one by one: a job may have a million.
constexpr int kMostListedRanks = 4096;

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
                      {"ended_communicators",
                       {{"count", job.ended_communicators.count},
                        {"operations", job.ended_communicators.operations},
                        {"bytes", job.ended_communicators.bytes},
                        {"ranks", job.ended_communicators.ranks}}},
                      {"stuck", json::array()}};
  if (reader.is_operator) description["tenant"] = job.tenant->name();
  return description;
}

}  // namespace

json JobReport(const ReportSources& sources, const Reader& reader) {
  const uint64_t now_ns = MonotonicNanoseconds();
  std::unordered_map<const Job*, json> jobs;
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
      json description = DescribeVerdict(*communicator, *verdict, now_ns);
      description["job"] = job->first->id.text();
      description["job_name"] = job->first->name;
      job->second["stuck"].push_back(std::move(description));
    }
    // A home without ranks of the communicator has nothing to show of it.
    if (!communicator->has_ranks_here()) continue;
    job->second["communicators"].push_back(Describe(*communicator, now_ns, reader.is_operator));
  }
  json list = json::array();
  std::stable_sort(order.begin(), order.end(),
                   [](const Job* a, const Job* b) { return a->began_seconds < b->began_seconds; });
  for (const Job* const job : order) list.push_back(std::move(jobs.at(job)));
  return list;
}

}  // namespace harmonaize::daemon
