#include "daemon/metrics/metrics_page.h"

#include <fmt/format.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <initializer_list>
#include <iterator>
#include <utility>

#include "daemon/version.h"
#include "src/base/clean_text.h"
#include "src/events/event_type.h"

namespace harmonaize::daemon {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

/// Longest value of a label, in bytes: longer than any name of a tenant (TenantSeries), which must
/// not be cut to equal another one.
constexpr size_t kLongestLabelBytes = 256;

using Label = std::pair<const char*, std::string>;

/// One family of metrics, to which samples are added.
class Family {
 public:
  explicit Family(MetricFamily* family) : family_(family) {}

  template <typename Number>
  Family& Add(Number value, std::initializer_list<Label> labels = {}) {
    prometheus::ClientMetric& metric = family_->metric.emplace_back();
    for (const auto& [name, text] : labels) {
      metric.label.push_back({name, CleanText(text, kLongestLabelBytes)});
    }
    // The serializer reads the one of the family's type.
    metric.counter.value = metric.gauge.value = static_cast<double>(value);
    return *this;
  }

 private:
  MetricFamily* const family_;
};

/// The families of a page, in their order.
class Page {
 public:
  /// `name` is without the prefix of all metrics.
  Family Counter(const char* name, const char* help) { return Begin(name, help, true); }
  Family Gauge(const char* name, const char* help) { return Begin(name, help, false); }
  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  Family Begin(const char* name, const char* help, bool is_counter) {
    MetricFamily& family = families_.emplace_back();
    family.name = fmt::format("harmonaize_{}", name);
    family.help = help;
    family.type = is_counter ? MetricType::Counter : MetricType::Gauge;
    return Family(&family);
  }

  std::vector<MetricFamily> families_;
};

double Seconds(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

// ---------------------------------------------------------------------------------------------
// The daemon

void AddDaemon(const EngineFacts& facts, Page* page) {
  page->Gauge("build_info", "The daemon's version, as a label of the number 1.")
      .Add(1, {{"version", kVersion}});
  page->Gauge("start_time_seconds", "When the daemon started, in seconds since 1970.")
      .Add(facts.started_seconds);
  page->Gauge("uptime_seconds", "Time since the daemon started.").Add(facts.uptime_seconds);
  page->Counter("engine_sleeps_total", "How often the engine's thread has gone to sleep.")
      .Add(facts.sleeps);
  page->Gauge("metrics_gather_seconds",
              "The engine's time that the last look for these metrics took.")
      .Add(facts.gather_seconds);
}

void AddWorkers(const ExecutorCounters& executor, Page* page) {
  page->Gauge("workers", "Threads that reduce and copy.").Add(executor.workers.size());
  std::vector<std::pair<std::string, WorkerCounters>> threads = {{"engine", executor.owner}};
  for (size_t i = 0; i < executor.workers.size(); ++i) {
    threads.emplace_back(std::to_string(i), executor.workers[i]);
  }
  Family busy = page->Counter("worker_busy_seconds_total",
                              "Time in which a thread reduced and copied. The engine's own small "
                              "operations are not timed.");
  for (const auto& [name, one] : threads)
    busy.Add(Seconds(one.busy_nanoseconds), {{"worker", name}});
  Family units =
      page->Counter("worker_units_total", "Pieces of operations that a thread has done.");
  for (const auto& [name, one] : threads) units.Add(one.units, {{"worker", name}});
  Family bytes = page->Counter("worker_bytes_total", "Bytes that a thread has read and written.");
  for (const auto& [name, one] : threads) bytes.Add(one.bytes, {{"worker", name}});
  page->Counter("worker_wakes_total", "System calls that woke workers.").Add(executor.worker_wakes);
  page->Counter("executions_total", "Pieces of work that the executor has ended.")
      .Add(executor.operations);
  page->Counter("failed_executions_total", "Those among them that failed or were canceled.")
      .Add(executor.failed_operations);
}

void AddAnnouncements(const AnnouncementFacts& facts, Page* page) {
  Family announced = page->Gauge("announcements", "What is announced for this host, or holds now.");
  for (const auto& [state, by_kind] :
       {std::pair("scheduled", &facts.scheduled), std::pair("started", &facts.started)}) {
    for (size_t i = 0; i < std::size(kNoticeKinds); ++i) {
      const auto found = by_kind->find(static_cast<CloudNotice::Kind>(i));
      const uint64_t count = found == by_kind->end() ? 0 : found->second;
      announced.Add(count, {{"kind", std::string(kNoticeKinds[i])}, {"state", state}});
    }
  }
  page->Gauge("announcements_overdue",
              "Announcements whose time has passed without news that they began.")
      .Add(facts.overdue);
  page->Gauge("draining", "1 while the daemon drains, or is drained; otherwise 0.")
      .Add(facts.draining ? 1 : 0);
  page->Gauge(
          "drain_deadline_seconds",
          "Until when the drain waits for jobs, in seconds since 1970; 0: there is no deadline.")
      .Add(facts.drain_deadline_seconds);
}

void AddOffers(const OfferCounts& counts, Page* page) {
  static constexpr const char* kOutcomes[] = {
      "declined", "expired", "withdrawn", "fulfilled", "broken_by_provider", "broken_by_tenant"};
  Family open = page->Gauge("offers", "Offers of this host to jobs that have not ended.");
  Family ended =
      page->Counter("offers_ended_total", "Offers of this host that have ended, by how.");
  for (size_t kind = 0; kind < counts.open.size(); ++kind) {
    const std::string name(NameOf(static_cast<OfferKind>(kind)));
    for (size_t state = 0; state < counts.open[kind].size(); ++state) {
      open.Add(counts.open[kind][state],
               {{"kind", name}, {"state", std::string(NameOf(static_cast<OfferState>(state)))}});
    }
    for (size_t outcome = 0; outcome < counts.ended[kind].size(); ++outcome) {
      ended.Add(counts.ended[kind][outcome], {{"kind", name}, {"outcome", kOutcomes[outcome]}});
    }
  }
}

/// A host at which sizes do not follow the load has no samples of the last two, but their names.
void AddElastic(const ElasticFacts& facts, Page* page) {
  AddOffers(facts.offers, page);
  page->Gauge("agents", "Launchers on this host that start ranks of elastic jobs.")
      .Add(facts.agents);
  page->Gauge("agent_places", "Ranks that they would start now.").Add(facts.agent_places);
  Family places = page->Gauge("elastic_places",
                              "Places for ranks on this host: all, those that are free, and those "
                              "that ranks are to leave.");
  Family decisions =
      page->Counter("elastic_decisions_total",
                    "Offers that this daemon has decided on by the load, for all hosts.");
  const SizingCounts& sizing = facts.sizing;
  if (!sizing.enabled) return;
  places.Add(sizing.places, {{"state", "all"}})
      .Add(sizing.free, {{"state", "free"}})
      .Add(sizing.coming, {{"state", "coming"}});
  decisions.Add(sizing.grows, {{"kind", "grow"}}).Add(sizing.reclaims, {{"kind", "reclaim"}});
}

/// Processes tell of these events, and nobody checks it. The kinds are few and known, so that no
/// process makes a series.
void AddProfiles(const ProfileCollector::Counts& counts, Page* page) {
  page->Gauge("profiled_processes", "Processes whose NCCL tells of profiler events.")
      .Add(counts.rings);
  Family events = page->Counter("profile_events_total",
                                "Events of NCCL's profiler, as processes tell them; nobody checks "
                                "it.");
  for (int kind = 1; kind < kProfileKindCount; ++kind) {
    events.Add(counts.records.events[static_cast<size_t>(kind)],
               {{"kind", std::string(ProfileKindName(static_cast<ProfileKind>(kind)))}});
  }
  page->Counter("profile_lost_events_total",
                "Events of NCCL's profiler that processes could not tell of, as they say.")
      .Add(counts.records.lost);
  page->Counter("profile_malformed_records_total",
                "Records of processes that no profiler plugin writes.")
      .Add(counts.records.malformed);
  page->Counter("profile_reading_seconds_total",
                "Time in which rings of profiler events were read.")
      .Add(Seconds(counts.busy_ns));
}

void AddTuning(const NcclTuning::Counts& counts, Page* page) {
  page->Gauge("tuned_communicators",
              "Communicators of stock NCCL that have ranks here and are advised.")
      .Add(counts.communicators);
  page->Counter("tuning_changes_total",
                "Changes of the tables by which ranks here choose in stock NCCL.")
      .Add(counts.changes);
}

void AddCommunicators(const EngineFacts& facts, Page* page) {
  static constexpr const char* kStates[] = {"ready", "revoked", "broken"};
  Family states = page->Gauge("communicators", "Communicators on this host, by their state.");
  for (size_t i = 0; i < facts.communicators.size(); ++i) {
    states.Add(facts.communicators[i], {{"state", kStates[i]}});
  }
  Family levels = page->Gauge("congested_communicators",
                              "Communicators over several hosts with their home here, by how much "
                              "of their speed they lose to links.");
  for (size_t i = 0; i < facts.congestion.size(); ++i) {
    levels.Add(facts.congestion[i],
               {{"level", std::string(CongestionName(static_cast<CongestionLevel>(i)))}});
  }
  page->Gauge("ranks", "Ranks on this host.").Add(facts.ranks);
  page->Gauge("jobs", "Jobs on this host; ended ones are remembered for a while.")
      .Add(facts.running_jobs, {{"state", "running"}})
      .Add(facts.ended_jobs, {{"state", "ended"}});

  const CommunicatorCounts::Counts& counts = facts.counts;
  page->Counter("communicators_formed_total", "Communicators that have formed here.")
      .Add(counts.formed);
  page->Counter("communicators_ended_total", "Communicators that have ended here.")
      .Add(counts.ended);
  page->Counter("communicators_broken_total", "How often a communicator was broken or revoked.")
      .Add(counts.broken);
  page->Counter("late_reports_total", "Reports that ranks keep others waiting.").Add(counts.late);
  page->Counter("lost_ranks_total",
                "Ranks of this host that were lost with their processes, before anything else had "
                "failed in their communicators.")
      .Add(counts.ranks_lost);
  page->Counter("mismatches_total", "Operations about which ranks disagreed.")
      .Add(counts.mismatches);
  page->Counter("plan_changes_total", "Changes of plans of communicators with their home here.")
      .Add(counts.plan_changes, {{"outcome", "committed"}})
      .Add(counts.plan_changes_called_off, {{"outcome", "called_off"}});
  page->Counter("congestion_changes_total",
                "Changes of the congestion of communicators with their home here.")
      .Add(counts.congestion_changes);
}

// ---------------------------------------------------------------------------------------------
// Tenants

/// Adds a family with one sample for each tenant.
template <typename Value>
void AddByTenant(Family family, const std::vector<NamedTenant>& tenants, Value&& value) {
  for (const NamedTenant& one : tenants) family.Add(value(one.facts), {{"tenant", one.label}});
}

void AddUsage(const std::vector<NamedTenant>& tenants, Page* page) {
  AddByTenant(page->Counter("tenant_operations_total",
                            "Operations of a tenant that the daemon has carried out, each once a "
                            "communicator."),
              tenants, [](const TenantFacts& one) { return one.usage.operations; });
  AddByTenant(page->Counter("tenant_bytes_total", "Bytes of these operations."), tenants,
              [](const TenantFacts& one) { return one.usage.bytes; });
  AddByTenant(page->Counter("tenant_claimed_inline_operations_total",
                            "Operations that a tenant's ranks say they did among themselves; "
                            "nobody checks it."),
              tenants, [](const TenantFacts& one) { return one.usage.claimed_operations; });
  AddByTenant(page->Counter("tenant_claimed_inline_bytes_total",
                            "Bytes that a tenant's ranks say they moved among themselves; nobody "
                            "checks it."),
              tenants, [](const TenantFacts& one) { return one.usage.claimed_bytes; });
  AddByTenant(page->Counter("tenant_worker_seconds_total",
                            "Time of the workers that a tenant's operations took."),
              tenants, [](const TenantFacts& one) { return Seconds(one.usage.worked_ns); });
  AddByTenant(page->Counter("tenant_request_seconds_total",
                            "Time of the daemon that a tenant's connections and requests took."),
              tenants, [](const TenantFacts& one) { return Seconds(one.usage.request_ns); });
}

/// A resource of which bytes are counted is a metric of its own, so that each has one unit.
struct CountedResource {
  Resource resource;
  const char* name;
};
constexpr CountedResource kCounted[] = {{Resource::kConnections, "connections"},
                                        {Resource::kSessions, "sessions"},
                                        {Resource::kRegions, "regions"},
                                        {Resource::kRegionDescriptors, "region_descriptors"},
                                        {Resource::kUniqueIds, "unique_ids"},
                                        {Resource::kCommunicators, "communicators"},
                                        {Resource::kRanks, "ranks"},
                                        {Resource::kTickets, "tickets"},
                                        {Resource::kNewcomers, "newcomers"}};

void AddLimits(Family family, const ResourceLimit& limit) {
  family.Add(limit.for_each, {{"scope", "tenant"}}).Add(limit.for_all, {{"scope", "host"}});
}

void AddHoldings(const EngineFacts& facts, const std::vector<NamedTenant>& tenants, Page* page) {
  const auto held = [](Resource resource) {
    return [resource](const TenantFacts& one) { return one.held[static_cast<size_t>(resource)]; };
  };
  const auto limit = [&facts](Resource resource) {
    return facts.limits[static_cast<size_t>(resource)];
  };
  AddByTenant(page->Gauge("tenant_registered_bytes", "Registered memory that a tenant holds."),
              tenants, held(Resource::kRegisteredBytes));
  AddByTenant(page->Gauge("tenant_memory_bytes",
                          "Memory of the daemon that grows with what a tenant asks for."),
              tenants, held(Resource::kMemory));
  AddByTenant(page->Gauge("tenant_checkpoint_bytes",
                          "Checkpoints in this host's memory, copies for other hosts included."),
              tenants, held(Resource::kCheckpointBytes));
  Family counted = page->Gauge("tenant_held", "What else a tenant holds of what all share.");
  for (const CountedResource& one : kCounted) {
    for (const NamedTenant& tenant : tenants) {
      counted.Add(held(one.resource)(tenant.facts),
                  {{"tenant", tenant.label}, {"resource", one.name}});
    }
  }
  page->Gauge("tenants", "Tenants that have been here since the daemon started.")
      .Add(facts.tenants.size());
  page->Gauge("active_tenants", "Tenants with a process that has a session.")
      .Add(facts.active_tenants);
  page->Counter("sessions_cut_off_total", "Sessions that were ended for what the process did.")
      .Add(facts.sessions_cut_off);
  AddLimits(page->Gauge("registered_bytes_limit",
                        "Most registered memory that one tenant, or all together, may hold."),
            limit(Resource::kRegisteredBytes));
  AddLimits(page->Gauge("memory_bytes_limit",
                        "Most of the daemon's memory that one tenant, or all together, may hold."),
            limit(Resource::kMemory));
  AddLimits(
      page->Gauge("checkpoint_bytes_limit",
                  "Most of checkpoints in memory that one tenant, or all together, may hold."),
      limit(Resource::kCheckpointBytes));
  Family limits = page->Gauge("held_limit", "Most that one tenant, or all together, may hold.");
  for (const CountedResource& one : kCounted) {
    limits.Add(limit(one.resource).for_each, {{"scope", "tenant"}, {"resource", one.name}})
        .Add(limit(one.resource).for_all, {{"scope", "host"}, {"resource", one.name}});
  }
}

// ---------------------------------------------------------------------------------------------
// The network

/// A host that stands alone has no samples of these, but their names.
void AddTransport(const EngineFacts& facts, Page* page) {
  const transport::TransportCounters& transport = facts.transport;
  const auto add = [&facts](Family family, uint64_t value) {
    if (facts.in_cluster) family.Add(value);
  };
  add(page->Gauge("linked_daemons", "Other daemons that this one is linked to."),
      facts.linked_daemons);
  add(page->Counter("transport_connections_accepted_total", "Connections that were accepted."),
      transport.connections_accepted);
  add(page->Counter("transport_connections_refused_total",
                    "Those among them that did not prove the cluster's key."),
      transport.connections_refused);
  add(page->Counter("transport_connections_evicted_total",
                    "Those among them that were closed because too many waited."),
      transport.connections_evicted);
  add(page->Counter("transport_foreign_messages_total", "Messages without the right token."),
      transport.foreign_messages);
  add(page->Gauge("transport_requests", "Sends and receives that are under way."),
      transport.requests_under_way);
  add(page->Gauge("transport_early_messages",
                  "Messages that came before their receive was posted."),
      transport.arrivals_waiting);
  add(page->Gauge("transport_early_bytes", "Memory in these messages."), transport.arrival_bytes);
}

void AddRails(const EngineFacts& facts, Page* page) {
  const auto add = [&facts](Family family, auto field) {
    for (const auto& [name, rail] : facts.rails) family.Add(rail.*field, {{"rail", name}});
  };
  add(page->Gauge("rail_connections", "Connections of a rail to all other daemons."),
      &RailFacts::connections);
  add(page->Gauge("rail_astray_links", "Other daemons to which a rail's own way carries nothing."),
      &RailFacts::astray);
  add(page->Counter("rail_sent_bytes_total", "Bytes that a rail has sent, acknowledged ones."),
      &RailFacts::sent_bytes);
  add(page->Counter("rail_received_bytes_total", "Bytes that a rail has received."),
      &RailFacts::received_bytes);
  add(page->Counter("rail_sent_packets_total", "Packets that a rail has sent."),
      &RailFacts::sent_packets);
  add(page->Counter("rail_resent_packets_total", "Those among them that were sent again."),
      &RailFacts::resent_packets);
  add(page->Counter("rail_busy_seconds_total",
                    "Time in which a rail had something to send, summed over other daemons."),
      &RailFacts::busy_seconds);
}

void AddFabricLinks(const EngineFacts& facts, Page* page) {
  const auto add = [&facts](Family family, double FabricLinkFacts::*field) {
    for (const FabricLinkFacts& one : facts.fabric_links) {
      family.Add(one.*field, {{"link", one.name}, {"from", one.from}, {"to", one.to}});
    }
  };
  add(page->Gauge("link_stated_bytes_per_second", "What the fabric file says that a link carries."),
      &FabricLinkFacts::stated);
  add(page->Gauge("link_planned_bytes_per_second", "What plans are made for."),
      &FabricLinkFacts::planned);
  add(page->Gauge("link_measured_bytes_per_second", "What a link was last seen to carry."),
      &FabricLinkFacts::measured);
}

// ---------------------------------------------------------------------------------------------
// Other threads

void AddEvents(const CountedElsewhere& elsewhere, Page* page) {
  Family published =
      page->Counter("events_published_total", "Events that were kept and told, by their type.");
  for (const EventTypeInfo& info : EventTypes()) {
    const auto index = static_cast<size_t>(info.type);
    if (index >= elsewhere.events_published.size()) continue;
    published.Add(elsewhere.events_published[index], {{"type", std::string(info.name)}});
  }
  page->Counter("events_repeated_total", "Events that came again by another way.")
      .Add(elsewhere.events_repeated);
  page->Counter("events_dropped_total", "Events that were lost because too many waited.")
      .Add(elsewhere.events_dropped);
  page->Counter("events_unshared_total",
                "Events that operators did not hear of, since the tenant had used up its share of "
                "their log.")
      .Add(elsewhere.events_unshared);
  page->Gauge("events_waiting", "Events that wait to be kept.").Add(elsewhere.events_waiting);
  page->Gauge("event_subscribers", "Subscriptions that are open.").Add(elsewhere.event_subscribers);
}

void AddHttp(const CountedElsewhere& elsewhere, Page* page) {
  page->Gauge("http_connections", "HTTP connections that are open.").Add(elsewhere.http_open);
  page->Counter("http_connections_total", "HTTP connections that were opened.")
      .Add(elsewhere.http_connections);
  Family answers = page->Counter("http_requests_total", "HTTP requests that were answered.");
  for (size_t status = 0; status < elsewhere.http_answers.size(); ++status) {
    // The usual ones are there from the start, so that their first increase is seen.
    const bool usual = status == 200 || status == 401 || status == 404 || status == 429 ||
                       status == 500 || status == 503;
    const uint64_t count = elsewhere.http_answers[status];
    if (usual || count > 0) answers.Add(count, {{"code", std::to_string(status)}});
  }
}

void AddLog(const CountedElsewhere& elsewhere, Page* page) {
  static constexpr const char* kLevels[] = {"error", "warning", "info", "debug", "trace"};
  Family lines = page->Counter("log_lines_total", "Lines of the log, by their level.");
  for (size_t i = 0; i < std::size(kLevels) && i < elsewhere.log_lines.size(); ++i) {
    lines.Add(elsewhere.log_lines[i], {{"level", kLevels[i]}});
  }
  page->Counter("log_lines_left_out_total", "Lines that were left out of the log.")
      .Add(elsewhere.log_left_out_own, {{"source", "daemon"}})
      .Add(elsewhere.log_left_out_tenants, {{"source", "tenants"}});
}

}  // namespace

std::string MetricsPage(const EngineFacts& facts, const std::vector<NamedTenant>& tenants,
                        const CountedElsewhere& elsewhere) {
  Page page;
  AddDaemon(facts, &page);
  AddWorkers(facts.executor, &page);
  AddAnnouncements(facts.announcements, &page);
  AddElastic(facts.elastic, &page);
  AddCommunicators(facts, &page);
  AddProfiles(facts.profiles, &page);
  AddTuning(facts.tuning, &page);
  AddUsage(tenants, &page);
  AddHoldings(facts, tenants, &page);
  AddTransport(facts, &page);
  AddRails(facts, &page);
  AddFabricLinks(facts, &page);
  AddEvents(elsewhere, &page);
  AddHttp(elsewhere, &page);
  AddLog(elsewhere, &page);
  return page.Text();
}

}  // namespace harmonaize::daemon
