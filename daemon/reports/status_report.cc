#include "daemon/reports/status_report.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/config/config.h"
#include "daemon/jobs/job_table.h"
#include "daemon/multihost/host_group.h"
#include "daemon/reports/communicator_parts.h"
#include "daemon/reports/status_cluster.h"
#include "daemon/reports/status_tuning.h"
#include "daemon/tenant/session_table.h"
#include "daemon/tenant/tenant_table.h"
#include "daemon/version.h"
#include "src/base/clock.h"
#include "src/base/json_text.h"
#include "src/executor/host/executor.h"
#include "src/ipc/session_versions.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Adds, for a communicator that spans hosts, the plans in use, and, at the home, how they fare.
/// Which daemon is the home, and in which order plans take the hosts, is for operators
/// (coarseness.md).
void DescribeSpan(const HostGroup& group, const Reader& reader, json* description) {
  (*description)["hosts"] = group.roster().hosts();
  if (reader.is_operator) (*description)["home"] = group.is_home();
  json plans = json::array();
  for (const PlanRecord& record : group.plans().Records()) {
    json plan = {{"collective", CollectiveName(record.plan.key.collective)},
                 {"bytes", SizeClasses()[static_cast<size_t>(record.plan.key.size_class)]},
                 {"algorithm", record.plan.algorithm},
                 {"operations", record.operations},
                 {"predicted_seconds", record.plan.predicted_seconds},
                 {"measured_seconds", record.seconds},
                 {"measured_bytes", record.bytes}};
    if (reader.is_operator) plan["order"] = record.plan.order_name;
    plans.push_back(std::move(plan));
  }
  (*description)["plans"] = std::move(plans);
  const PlanControl* const control = group.plans().control();
  if (control == nullptr) return;
  (*description)["congestion"] = CongestionName(control->congestion().level());
  (*description)["plan_changes"] = group.plans().switching().history().size();
}

json Describe(const Communicator& communicator, const Reader& reader, uint64_t now_ns) {
  const WaitingOperations waiting = communicator.Waiting(now_ns);
  json members = json::array();
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    const Member* member = communicator.member(rank);
    if (member == nullptr) continue;
    members.push_back({{"rank", rank},
                       {"process", member->session->process()},
                       {"program", member->session->program()},
                       {"session", member->session->id()}});
  }
  // Of inline operations the daemon knows only what the ranks say.
  const InlineSegment* const segment = communicator.inline_segment();
  json description = {{"id", communicator.id()},
                      {"gang", communicator.gang()},
                      {"handle", communicator.handle()},
                      {"job", communicator.job()->id.text()},
                      {"job_name", communicator.job()->name},
                      {"name", communicator.name()},
                      {"ranks", communicator.ranks()},
                      {"state", StateName(communicator.state())},
                      {"operations", communicator.operations()},
                      {"bytes", communicator.bytes()},
                      {"inline_operations", segment == nullptr ? 0 : segment->operations()},
                      {"inline_bytes", segment == nullptr ? 0 : segment->bytes_moved()},
                      {"members", std::move(members)},
                      {"waiting", DescribeWaiting(waiting)},
                      {"waiting_not_listed", waiting.not_listed}};
  if (const HostGroup* const group = communicator.host_group()) {
    DescribeSpan(*group, reader, &description);
  }
  DescribeKind(communicator, &description);
  if (!communicator.failure().ok()) description["failure"] = communicator.failure().message();
  return description;
}

json DescribeProcesses(const ReportSources& sources, const Tenant& tenant) {
  json processes = json::array();
  for (const auto& [id, session] : sources.sessions->all()) {
    if (&session->tenant() != &tenant) continue;
    processes.push_back({{"session", id},
                         {"process", session->process()},
                         {"gang", session->gang()},
                         {"protocol", session->connection().version()},
                         {"program", session->program()},
                         {"operations", session->operations()},
                         {"doorbells", session->doorbells()},
                         {"wakes", session->wakes()}});
  }
  return processes;
}

/// Describes what the tenant holds of what all tenants share, and how much of it the tenant may
/// hold.
json DescribeHoldings(const Account& account) {
  json holdings = json::array();
  for (size_t i = 0; i < kResourceCount; ++i) {
    const auto resource = static_cast<Resource>(i);
    holdings.push_back({{"resource", ResourceName(resource)},
                        {"held", account.held(resource)},
                        {"quota", account.host().limit(resource).for_each}});
  }
  return holdings;
}

json Describe(const ReportSources& sources, const Reader& reader, Tenant& tenant, uint64_t now_ns) {
  json communicators = json::array();
  for (const auto& [id, communicator] : sources.communicators->all()) {
    if (&communicator->tenant() != &tenant) continue;
    communicators.push_back(Describe(*communicator, reader, now_ns));
  }
  const Account& account = *tenant.account;
  return {{"uid", tenant.identity.user},
          {"name", tenant.name()},
          {"sessions", account.held(Resource::kSessions)},
          {"regions", account.held(Resource::kRegions)},
          {"region_bytes", account.held(Resource::kRegisteredBytes)},
          {"holds", DescribeHoldings(account)},
          {"operations", tenant.operations},
          {"bytes", tenant.bytes},
          {"processes", DescribeProcesses(sources, tenant)},
          {"communicators", std::move(communicators)}};
}

json DescribeWorkers(const Executor& executor) {
  const ExecutorCounters counters = executor.Counters();
  json workers = json::array();
  for (const WorkerCounters& worker : counters.workers) {
    workers.push_back({{"units", worker.units},
                       {"bytes", worker.bytes},
                       {"busy_seconds", static_cast<double>(worker.busy_nanoseconds) * 1e-9}});
  }
  return workers;
}

}  // namespace

json DaemonStatus(const ReportSources& sources, const Reader& reader) {
  const VersionRange spoken = sources.config->session_versions.value_or(kSessionVersions);
  json status = {
      {"version", kVersion},
      {"pid", getpid()},
      {"uptime_seconds", static_cast<double>(MonotonicNanoseconds() - sources.started_ns) * 1e-9},
      {"socket", sources.config->socket_path},
      {"protocol", {{"oldest", spoken.oldest}, {"latest", spoken.latest}}},
      {"workers", sources.executor->machine().workers}};
  if (!reader.is_operator) return status;
  status["worker_counters"] = DescribeWorkers(*sources.executor);
  status["worker_wakes"] = sources.executor->Counters().worker_wakes;
  status["sleeps"] = sources.sleeps;
  if (sources.cluster != nullptr) status["transport"] = TransportStatus(*sources.cluster);
  return status;
}

json TenantsStatus(const ReportSources& sources, const Reader& reader) {
  const uint64_t now_ns = MonotonicNanoseconds();
  json tenants = json::array();
  for (const auto& [number, tenant] : sources.tenants->all()) {
    if (!reader.is_operator && number != reader.tenant) continue;
    tenants.push_back(Describe(sources, reader, *tenant, now_ns));
  }
  return tenants;
}

std::string StatusReport(const ReportSources& sources, const Reader& reader) {
  json report = {{"daemon", DaemonStatus(sources, reader)},
                 {"tenants", TenantsStatus(sources, reader)}};
  if (sources.nccl_tuning != nullptr) report["nccl_tuning"] = TuningStatus(sources, reader);
  if (reader.is_operator && sources.cluster != nullptr) {
    report["cluster"] = ClusterStatus(sources, MonotonicNanoseconds());
  }
  return JsonText(report);
}

}  // namespace harmonaize::daemon
