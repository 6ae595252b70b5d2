#include "daemon/status_report.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "daemon/cluster/span.h"
#include "daemon/version.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

const char* StateName(Communicator::State state) {
  switch (state) {
    case Communicator::State::kReady: return "ready";
    case Communicator::State::kRevoked: return "revoked";
    case Communicator::State::kBroken: return "broken";
  }
  return "unknown";
}

/// Between hosts: the plans in use, and, at the home, how they fare.
void DescribeSpan(const Span& span, json* description) {
  (*description)["hosts"] = span.roster().hosts();
  (*description)["home"] = span.is_home();
  json plans = json::array();
  for (const PlanRecord& record : span.plans().Records()) {
    plans.push_back(
        {{"collective", CollectiveName(static_cast<Collective>(record.plan.collective))},
         {"bytes", SizeClasses()[static_cast<size_t>(record.plan.size_class)]},
         {"algorithm", record.plan.algorithm},
         {"order", record.plan.order_name},
         {"operations", record.operations}});
  }
  (*description)["plans"] = std::move(plans);
  const PlanControl* const control = span.plans().control();
  if (control == nullptr) return;
  (*description)["congestion"] = CongestionName(control->congestion().level());
  (*description)["plan_changes"] = span.plans().switching().history().size();
}

json Describe(const Communicator& communicator, uint64_t now_ns) {
  json waiting = json::array();
  for (const WaitingOperation& operation : communicator.Waiting(now_ns)) {
    waiting.push_back({{"operation", operation.operation},
                       {"for_seconds", operation.for_seconds},
                       {"missing_ranks", operation.missing_ranks}});
  }
  json members = json::array();
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    const Member* member = communicator.member(rank);
    if (member == nullptr) continue;
    members.push_back({{"rank", rank},
                       {"process", member->session->process()},
                       {"program", member->session->program()},
                       {"session", member->session->id()}});
  }
  // Of what its ranks do among themselves the daemon knows what they say.
  const InlineSegment* const segment = communicator.inline_segment();
  json description = {{"id", communicator.id()},
                      {"job", communicator.job()},
                      {"name", communicator.name()},
                      {"ranks", communicator.ranks()},
                      {"state", StateName(communicator.state())},
                      {"operations", communicator.operations()},
                      {"bytes", communicator.bytes()},
                      {"inline_operations", segment == nullptr ? 0 : segment->operations()},
                      {"inline_bytes", segment == nullptr ? 0 : segment->bytes_moved()},
                      {"members", std::move(members)},
                      {"waiting", std::move(waiting)}};
  if (const Span* const span = communicator.span()) DescribeSpan(*span, &description);
  if (!communicator.failure().ok()) description["failure"] = communicator.failure().message();
  return description;
}

json DescribeProcesses(const Engine& engine, const Tenant& tenant) {
  json processes = json::array();
  for (const auto& [id, session] : engine.sessions()) {
    if (&session->tenant() != &tenant) continue;
    processes.push_back({{"session", id},
                         {"process", session->process()},
                         {"job", session->job()},
                         {"program", session->program()},
                         {"operations", session->operations()},
                         {"doorbells", session->doorbells()},
                         {"wakes", session->wakes()}});
  }
  return processes;
}

json Describe(Engine& engine, Tenant& tenant, uint64_t now_ns) {
  json communicators = json::array();
  for (const auto& communicator : engine.membership().communicators()) {
    if (&communicator->tenant() == &tenant)
      communicators.push_back(Describe(*communicator, now_ns));
  }
  return {{"uid", tenant.user},
          {"name", tenant.name},
          {"sessions", tenant.sessions},
          {"regions", tenant.regions},
          {"region_bytes", tenant.region_bytes},
          {"operations", tenant.operations},
          {"bytes", tenant.bytes},
          {"processes", DescribeProcesses(engine, tenant)},
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

json DescribeTransport(const Cluster& cluster) {
  const transport::TransportCounters counters = cluster.counters();
  return {{"peers", cluster.peers()},
          {"connections_accepted", counters.connections_accepted},
          {"connections_refused", counters.connections_refused},
          {"requests_under_way", counters.requests_under_way},
          {"arrivals_waiting", counters.arrivals_waiting},
          {"arrival_bytes", counters.arrival_bytes}};
}

json DescribeLinks(const Cluster& cluster) {
  json links = json::array();
  std::vector<transport::PeerId> peers;
  for (const auto& [peer, info] : cluster.linked()) peers.push_back(peer);
  for (const transport::LinkTraffic& link : cluster.transport().Traffic(peers)) {
    json rails = json::array();
    for (const transport::RailTraffic& rail : link.rails) {
      rails.push_back(
          {{"name", rail.name},
           {"connections", rail.connections},
           {"sent_bytes", rail.sent_bytes},
           {"received_bytes", rail.received_bytes},
           {"sent_packets", rail.sent_packets},
           {"resent_packets", rail.resent_packets},
           {"busy_seconds", rail.busy_seconds},
           {"round_trip_seconds", rail.round_trip_seconds},
           {"least_round_trip_seconds", rail.least_round_trip_seconds},
           {"arrival_queue_seconds",
            rail.arrival_queue_seconds < 0 ? json(nullptr) : json(rail.arrival_queue_seconds)},
           {"astray", rail.astray}});
    }
    links.push_back({{"peer", link.remote.ToString()}, {"rails", std::move(rails)}});
  }
  return links;
}

/// What a home has found of the fabric's links; those of which there never was a sign are left out.
json DescribeFabricLinks(const LinkState& state, const Fabric& fabric, double now_seconds) {
  json links = json::array();
  for (const EdgeState& one : state.Edges(now_seconds)) {
    const Edge ends = fabric.EdgeAt(one.edge);
    links.push_back({{"link", fabric.links[static_cast<size_t>(one.edge / 2)].name},
                     {"from", fabric.nodes[static_cast<size_t>(ends.from)].name},
                     {"to", fabric.nodes[static_cast<size_t>(ends.to)].name},
                     {"stated_bytes_per_second", one.stated},
                     {"planned_bytes_per_second", one.in_force},
                     {"measured_bytes_per_second", one.estimate.bytes_per_second},
                     {"full", one.estimate.full},
                     {"confidence", one.estimate.confidence},
                     {"age_seconds", one.estimate.age_seconds}});
  }
  return links;
}

/// Whose word on shares of links is heeded here; at the controller also of whom it knows.
json DescribeController(const ControlLoop& loop) {
  const ControllerLink& link = *loop.controller_link();
  json description = {{"address", link.address()},
                      {"here", loop.controller() != nullptr},
                      {"follows", link.follows()},
                      {"limited_rails", link.limits()}};
  if (loop.controller() == nullptr) return description;
  json jobs = json::array();
  for (const ControlledJob& one : loop.controller()->Jobs()) {
    jobs.push_back({{"uid", one.job.tenant},
                    {"communicator", fmt::format("{:016x}", one.job.job)},
                    {"bytes_per_second", one.bytes_per_second},
                    {"rails", one.rails},
                    {"held_back_rails", one.held_back}});
  }
  description["hosts"] = loop.controller()->hosts();
  description["jobs"] = std::move(jobs);
  return description;
}

}  // namespace

std::string StatusReport(Engine& engine, uid_t reader) {
  const uint64_t now_ns = MonotonicNanoseconds();
  const bool provider = reader == 0 || reader == geteuid();
  json report;
  report["daemon"] = {{"version", kVersion},
                      {"pid", getpid()},
                      {"uptime_seconds", static_cast<double>(now_ns - engine.started_ns()) * 1e-9},
                      {"socket", engine.config().socket_path},
                      {"workers", engine.machine().workers}};
  if (provider && engine.cluster() != nullptr) {
    report["cluster"] = {{"address", engine.cluster()->address()},
                         {"host", engine.cluster()->host_name()},
                         {"linked_daemons", engine.cluster()->peers()},
                         {"links", DescribeLinks(*engine.cluster())}};
    if (engine.control_loop().controller_link() != nullptr) {
      report["cluster"]["controller"] = DescribeController(engine.control_loop());
    }
    if (const LinkState* const state = engine.control_loop().links()) {
      report["cluster"]["fabric_links"] = DescribeFabricLinks(
          *state, engine.cluster()->fabric()->fabric(), static_cast<double>(now_ns) * 1e-9);
    }
  }
  if (provider) {
    report["daemon"]["worker_counters"] = DescribeWorkers(engine.executor());
    report["daemon"]["worker_wakes"] = engine.executor().Counters().worker_wakes;
    report["daemon"]["sleeps"] = engine.sleeps();
    if (engine.cluster() != nullptr) {
      report["daemon"]["transport"] = DescribeTransport(*engine.cluster());
    }
  }
  report["tenants"] = json::array();
  for (const auto& [user, tenant] : engine.tenants()) {
    if (provider || user == reader) report["tenants"].push_back(Describe(engine, *tenant, now_ns));
  }
  return report.dump();
}

}  // namespace harmonaize::daemon
