#include "daemon/reports/explain_communicator.h"

#include <unistd.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/config/config.h"
#include "daemon/control/control_loop.h"
#include "daemon/jobs/job_table.h"
#include "daemon/multihost/host_group.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Most plans that are told of those that were considered: the best ones.
constexpr size_t kMostCandidates = 8;

/// What tenants are told in the place of links and their rates.
constexpr char kReasonForTenants[] = "what the network carries has changed";

/// The names that a reader may see. Tenants get numbers of their own hosts, and nothing of the way
/// that plans take through the fabric: it would tell which hosts share a rack (coarseness.md).
class HostNames {
 public:
  HostNames(const HostGroup& group, bool provider) : host_group_(group), provider_(provider) {}

  bool provider() const { return provider_; }
  std::string OfFabricHost(int fabric_host) const {
    const KnownFabric* const fabric = host_group_.fabric();
    if (provider_ && fabric != nullptr) return fabric->model->HostName(fabric_host);
    const std::vector<int>& hosts = host_group_.roster().fabric_hosts;
    const auto found = std::find(hosts.begin(), hosts.end(), fabric_host);
    return std::to_string(found - hosts.begin());
  }
  json Of(const std::vector<int>& fabric_hosts) const {
    json names = json::array();
    for (const int host : fabric_hosts) names.push_back(OfFabricHost(host));
    return names;
  }

 private:
  const HostGroup& host_group_;
  const bool provider_;
};

json DescribeHosts(const HostGroup& group, const HostNames& names) {
  json hosts = json::array();
  const Roster& roster = group.roster();
  for (int host = 0; host < roster.hosts(); ++host) {
    json ranks = json::array();
    for (size_t rank = 0; rank < roster.host_of_rank.size(); ++rank) {
      if (roster.host_of_rank[rank] == host) ranks.push_back(rank);
    }
    hosts.push_back({{"host", names.OfFabricHost(roster.fabric_hosts[static_cast<size_t>(host)])},
                     {"ranks", std::move(ranks)},
                     {"here", host == roster.self}});
  }
  return hosts;
}

/// Adds the way that a plan takes through the fabric.
void AddWay(const std::string& order_name, const std::vector<int>& order,
            const std::vector<std::vector<int>>& groups, const HostNames& names,
            json* description) {
  (*description)["order"] = order_name;
  (*description)["hosts"] = names.Of(order);
  (*description)["groups"] = json::array();
  for (const std::vector<int>& group : groups) {
    (*description)["groups"].push_back(names.Of(group));
  }
}

json DescribeSpec(const Planner& planner, const RankedPlan& plan, const HostNames& names) {
  const Candidate& candidate = planner.candidates()[plan.candidate];
  json description = {{"algorithm", candidate.spec.algorithm->name},
                      {"pieces", plan.pieces},
                      {"wire", WireFormatName(plan.wire)},
                      {"predicted_seconds", plan.prediction.seconds}};
  if (!names.provider()) return description;
  AddWay(candidate.spec.order.name, candidate.spec.order.hosts, candidate.spec.groups, names,
         &description);
  description["paths"] = candidate.lanes.empty() ? PathUseName(candidate.spec.paths) : "chosen";
  return description;
}

/// Adds what the home knows beyond the choice: the candidates, and a prediction for what was
/// measured.
void AddCandidates(const Planner& planner, uint64_t class_bytes, uint64_t mean_bytes,
                   const HostNames& names, json* entry) {
  const PlannedSize planned = planner.PlanFor(class_bytes);
  json candidates = json::array();
  for (const RankedPlan& plan : planned.plans) {
    if (candidates.size() < kMostCandidates) {
      candidates.push_back(DescribeSpec(planner, plan, names));
    }
  }
  (*entry)["candidates"] = std::move(candidates);
  (*entry)["considered"] = planned.plans.size();
  if (names.provider()) {
    json left_out = json::array();
    for (const NotConsidered& one : planner.not_considered()) {
      left_out.push_back({{"what", one.what}, {"why", one.why}});
    }
    (*entry)["not_considered"] = std::move(left_out);
  }
  if (mean_bytes == 0) return;
  json& measured = (*entry)["measured"];
  measured["predicted_seconds"] = planner.PredictAt(planned.plans.front(), mean_bytes).seconds;
  measured["bound_seconds"] = planner.bound_seconds_per_byte() * static_cast<double>(mean_bytes);
}

json DescribeMessage(const CollectivePlan& plan, const HostNames& names) {
  json description = {{"collective", CollectiveName(plan.key.collective)},
                      {"root", plan.key.root},
                      {"bytes", SizeClasses()[static_cast<size_t>(plan.key.size_class)]},
                      {"algorithm", plan.algorithm},
                      {"pieces", plan.pieces},
                      {"slice_bytes", plan.slice_bytes},
                      {"slices_at_once", plan.slices_at_once},
                      {"wire", WireFormatName(plan.wire)},
                      {"predicted_seconds", plan.predicted_seconds},
                      {"bound_seconds", plan.bound_seconds}};
  if (!names.provider()) return description;
  AddWay(plan.order_name, plan.order, plan.groups, names, &description);
  description["paths"] = PathUseName(plan.paths);
  return description;
}

json DescribePlan(const HostGroup& group, const PlanRecord& record, const HostNames& names) {
  const CollectivePlan& plan = record.plan;
  const uint64_t class_bytes = SizeClasses()[static_cast<size_t>(plan.key.size_class)];
  json entry = DescribeMessage(plan, names);
  entry["measured"] = {{"operations", record.operations}};
  const uint64_t mean_bytes = record.operations == 0 ? 0 : record.bytes / record.operations;
  if (record.operations > 0) {
    entry["measured"]["bytes"] = mean_bytes;
    entry["measured"]["seconds"] = record.seconds / static_cast<double>(record.operations);
  }
  if (group.plans().home_planner() == nullptr) return entry;
  const auto planner = group.plans().home_planner()->PlannerFor(plan.key);
  if (planner != nullptr) AddCandidates(*planner, class_bytes, mean_bytes, names, &entry);
  return entry;
}

json DescribeMessages(const std::vector<CollectivePlan>& plans, const HostNames& names) {
  json list = json::array();
  for (const CollectivePlan& plan : plans) list.push_back(DescribeMessage(plan, names));
  return list;
}

const char* OutcomeName(PlanChange::Outcome outcome) {
  switch (outcome) {
    case PlanChange::Outcome::kCommitted: return "committed";
    case PlanChange::Outcome::kCalledOff: return "called off";
    default: return "under way";
  }
}

json DescribeHistory(const HostGroup& group, const HostNames& names) {
  json history = json::array();
  for (const PlanChange& change : group.plans().switching().history()) {
    json entry = {{"unix_seconds", change.unix_seconds},
                  {"reason", names.provider() ? change.reason : std::string(kReasonForTenants)},
                  {"outcome", OutcomeName(change.outcome)},
                  {"took_seconds", change.took_seconds},
                  {"before", DescribeMessages(change.before, names)},
                  {"after", DescribeMessages(change.after, names)}};
    if (change.outcome == PlanChange::Outcome::kCommitted) entry["from"] = change.from;
    if (names.provider() && !change.called_off.empty()) entry["called_off"] = change.called_off;
    history.push_back(std::move(entry));
  }
  return history;
}

json DescribeCongestion(const Congestion& congestion) {
  json changes = json::array();
  for (const Congestion::Change& change : congestion.changes()) {
    changes.push_back({{"unix_seconds", change.unix_seconds},
                       {"level", CongestionName(change.level)},
                       {"slowdown", change.slowdown}});
  }
  return {{"level", CongestionName(congestion.level())},
          {"slowdown", congestion.slowdown()},
          {"changes", std::move(changes)}};
}

/// Returns the communicator with this number or id, or else the last one with this name.
Communicator* FindCommunicator(const ReportSources& sources, const Reader& reader,
                               const std::string& which) {
  Communicator* found = nullptr;
  for (const auto& [id, communicator] : sources.communicators->all()) {
    if (!reader.is_operator && communicator->tenant().identity.number != reader.tenant) continue;
    if (std::to_string(communicator->id()) == which) return communicator.get();
    if (communicator->handle() == which) return communicator.get();
    if (communicator->name() == which) found = communicator.get();
  }
  return found;
}

/// Describes what the job was granted of links that it shares, and how its floor fares.
json DescribeSharing(const ReportSources& sources, const Communicator& communicator) {
  const SharingTerms terms = communicator.job()->terms->SharingOf(communicator.name());
  json sharing = {{"priority", terms.priority},
                  {"bandwidth_floor", terms.floor_bytes_per_second},
                  {"bandwidth_cap", terms.cap_bytes_per_second}};
  if (terms.floor_bytes_per_second <= 0) return sharing;
  const Status floor = sources.control_loop->FloorOf(communicator);
  const ControllerLink* const link = sources.control_loop->controller_link();
  const FloorWord* const word =
      link == nullptr ? nullptr : link->FloorOf(communicator.host_group()->roster().key);
  sharing["floor"] = !floor.ok()       ? "refused"
                     : word == nullptr ? "not known yet"
                     : word->missed    ? "missed"
                                       : "kept";
  if (!floor.ok()) sharing["why"] = floor.message();
  return sharing;
}

}  // namespace

Result<std::string> ExplainCommunicator(const ReportSources& sources, const Reader& reader,
                                        const std::string& which) {
  const bool provider = reader.is_operator;
  Communicator* const communicator = FindCommunicator(sources, reader, which);
  if (communicator == nullptr) {
    return InvalidArgument(
        "there is no communicator '{}' here: 'harmonaize status' lists them by their ids", which);
  }
  json report = {{"communicator", communicator->id()},
                 {"id", communicator->handle()},
                 {"name", communicator->name()},
                 {"ranks", communicator->ranks()}};
  const HostGroup* const group = communicator->host_group();
  if (group != nullptr) {
    const HostNames names(*group, provider);
    report["hosts"] = DescribeHosts(*group, names);
    if (provider) report["home"] = group->is_home();
    report["sharing"] = DescribeSharing(sources, *communicator);
    report["plans"] = json::array();
    for (const PlanRecord& record : group->plans().Records()) {
      report["plans"].push_back(DescribePlan(*group, record, names));
    }
    if (group->is_home()) {
      report["policy"] = sources.config->plans.policy;
      report["history"] = DescribeHistory(*group, names);
      report["congestion"] = DescribeCongestion(group->plans().control()->congestion());
    }
    if (provider && group->fabric() != nullptr) {
      report["fabric"] = group->fabric()->model->fabric().name;
    }
  }
  return JsonText(report);
}

}  // namespace harmonaize::daemon
