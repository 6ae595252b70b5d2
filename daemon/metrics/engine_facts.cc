#include "daemon/metrics/engine_facts.h"

#include <algorithm>
#include <cmath>

#include "daemon/agents/agents.h"
#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/control/control_loop.h"
#include "daemon/job_events/announcements.h"
#include "daemon/job_events/drain.h"
#include "daemon/jobs/job_table.h"
#include "daemon/multihost/host_group.h"
#include "daemon/profiles/profiles.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/clock.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// Most rails that are told apart, by name; the names are other daemons' configuration. The traffic
/// of further ones is added to kOtherRails.
constexpr size_t kMostRails = 32;
constexpr char kOtherRails[] = "other";

/// Most directions of links that are listed. A fabric file may name more, which a monitoring system
/// would have to keep for each daemon.
constexpr size_t kMostFabricLinks = 1024;

/// Adds what `now` has more than `before`. What has fallen has begun anew.
template <typename Number>
void AddGrowth(Number* sum, Number before, Number now) {
  *sum += now >= before ? now - before : now;
}

}  // namespace

EngineFacts FactGatherer::Gather(const ReportSources& sources) {
  const uint64_t begun_ns = MonotonicNanoseconds();
  EngineFacts facts;
  facts.uptime_seconds = static_cast<double>(begun_ns - sources.started_ns) * 1e-9;
  // The time of day may be set meanwhile, which would look like another start.
  if (started_seconds_ == 0) started_seconds_ = UnixSeconds() - facts.uptime_seconds;
  facts.started_seconds = started_seconds_;
  facts.sleeps = sources.sleeps;
  facts.sessions_cut_off = sources.sessions_cut_off;
  facts.executor = sources.executor->Counters();
  facts.counts = sources.counts->counts();
  GatherTenants(sources, &facts);
  GatherCommunicators(sources, &facts);
  GatherAnnouncements(sources, &facts);
  GatherElastic(sources, &facts);
  if (sources.profiles != nullptr) facts.profiles = sources.profiles->counts();
  if (sources.nccl_tuning != nullptr) facts.tuning = sources.nccl_tuning->counts();
  GatherNetwork(sources, &facts);
  facts.gather_seconds = static_cast<double>(MonotonicNanoseconds() - begun_ns) * 1e-9;
  return facts;
}

void FactGatherer::GatherTenants(const ReportSources& sources, EngineFacts* facts) {
  facts->usage = sources.usage->Look();
  for (size_t i = 0; i < kResourceCount; ++i) {
    facts->limits[i] = sources.tenants->host().limit(static_cast<Resource>(i));
  }
  for (const TenantUsage& usage : facts->usage) {
    if (!usage.here) continue;
    const Account& account = *sources.tenants->all().at(usage.number)->account;
    TenantFacts tenant{.usage = usage};
    for (size_t i = 0; i < kResourceCount; ++i) {
      tenant.held[i] = account.held(static_cast<Resource>(i));
    }
    if (account.held(Resource::kSessions) > 0) ++facts->active_tenants;
    facts->tenants.push_back(std::move(tenant));
  }
  for (const auto& [key, job] : sources.jobs->all()) {
    ++(job->is_here() ? facts->running_jobs : facts->ended_jobs);
  }
}

void FactGatherer::GatherCommunicators(const ReportSources& sources, EngineFacts* facts) {
  for (const auto& [id, communicator] : sources.communicators->all()) {
    ++facts->communicators[static_cast<size_t>(communicator->state())];
    const HostGroup* const group = communicator->host_group();
    if (group == nullptr) continue;
    const PlanControl* const control = group->plans().control();
    if (control != nullptr) ++facts->congestion[static_cast<size_t>(control->congestion().level())];
  }
  for (const TenantFacts& tenant : facts->tenants) {
    facts->ranks += static_cast<uint64_t>(tenant.held[static_cast<size_t>(Resource::kRanks)]);
  }
}

void FactGatherer::GatherAnnouncements(const ReportSources& sources, EngineFacts* facts) {
  if (sources.announcements == nullptr) return;
  AnnouncementFacts& announcements = facts->announcements;
  for (const Announcements::Active& active : sources.announcements->All()) {
    const bool is_to_come = active.notice.state == CloudNotice::State::kScheduled;
    ++(is_to_come ? announcements.scheduled : announcements.started)[active.notice.kind];
    if (IsOverdue(active.notice)) ++announcements.overdue;
  }
  announcements.draining = sources.drain->state() != Drain::State::kServing;
  announcements.drain_deadline_seconds =
      static_cast<double>(sources.drain->order().deadline_seconds.value_or(0));
}

void FactGatherer::GatherElastic(const ReportSources& sources, EngineFacts* facts) {
  if (sources.offers == nullptr) return;
  ElasticFacts& elastic = facts->elastic;
  elastic.offers = sources.offers->Counts();
  elastic.agents = sources.agents->own().size();
  elastic.agent_places = sources.agents->own().AllPlaces();
  elastic.sizing = sources.sizing->Counts();
}

void FactGatherer::GatherNetwork(const ReportSources& sources, EngineFacts* facts) {
  if (sources.cluster == nullptr) return;
  facts->in_cluster = true;
  facts->linked_daemons = sources.cluster->peers();
  facts->transport = sources.cluster->counters();
  GatherRails(sources, facts);
  const LinkState* const links = sources.control_loop->links();
  if (links == nullptr) return;
  const Fabric& fabric = sources.cluster->fabric()->fabric();
  for (const EdgeState& one : links->Edges(static_cast<double>(MonotonicNanoseconds()) * 1e-9)) {
    if (facts->fabric_links.size() >= kMostFabricLinks) return;
    // Of an edge that only carries something the series would come and go with each operation.
    if (one.in_force == one.stated && !std::isfinite(one.estimate.age_seconds)) continue;
    const Edge ends = fabric.EdgeAt(one.edge);
    facts->fabric_links.push_back({.name = fabric.links[static_cast<size_t>(one.edge / 2)].name,
                                   .from = fabric.nodes[static_cast<size_t>(ends.from)].name,
                                   .to = fabric.nodes[static_cast<size_t>(ends.to)].name,
                                   .stated = one.stated,
                                   .planned = one.in_force,
                                   .measured = one.estimate.bytes_per_second});
  }
}

// The transport counts from the moment when a peer was linked, and forgets when it goes.
void FactGatherer::GatherRails(const ReportSources& sources, EngineFacts* facts) {
  for (auto& [name, rail] : rails_) rail.connections = rail.astray = 0;
  for (auto& [key, carried] : carried_) carried.seen = false;
  std::vector<transport::PeerId> peers;
  for (const auto& [peer, info] : sources.cluster->linked()) peers.push_back(peer);
  for (const transport::LinkTraffic& link : sources.cluster->transport().Traffic(peers)) {
    for (const transport::RailTraffic& now : link.rails) {
      const bool listed = rails_.contains(now.name) || rails_.size() < kMostRails;
      RailFacts& sum = rails_[listed ? now.name : kOtherRails];
      Carried& before = carried_[{link.peer, now.name}];
      sum.connections += static_cast<uint64_t>(std::max(0, now.connections));
      if (now.astray) ++sum.astray;
      AddGrowth(&sum.sent_bytes, before.traffic.sent_bytes, now.sent_bytes);
      AddGrowth(&sum.received_bytes, before.traffic.received_bytes, now.received_bytes);
      AddGrowth(&sum.sent_packets, before.traffic.sent_packets, now.sent_packets);
      AddGrowth(&sum.resent_packets, before.traffic.resent_packets, now.resent_packets);
      AddGrowth(&sum.busy_seconds, before.traffic.busy_seconds, now.busy_seconds);
      before = {.traffic = {.sent_bytes = now.sent_bytes,
                            .received_bytes = now.received_bytes,
                            .sent_packets = now.sent_packets,
                            .resent_packets = now.resent_packets,
                            .busy_seconds = now.busy_seconds},
                .seen = true};
    }
  }
  std::erase_if(carried_, [](const auto& entry) { return !entry.second.seen; });
  facts->rails = rails_;
}

}  // namespace harmonaize::daemon
