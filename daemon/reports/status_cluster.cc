#include "daemon/reports/status_cluster.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "daemon/cluster/cluster.h"
#include "daemon/control/control_loop.h"

namespace harmonaize::daemon {

using nlohmann::json;

namespace {

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
    const auto info = cluster.linked().find(link.peer);
    links.push_back({{"peer", link.remote.ToString()},
                     {"protocol", info == cluster.linked().end() ? 0 : info->second.version},
                     {"rails", std::move(rails)}});
  }
  return links;
}

/// Describes what a home has found of the fabric's links. Links of which there never was a sign are
/// left out.
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
                     {"carried_bytes_per_second", one.carried},
                     {"full", one.estimate.full},
                     {"confidence", one.estimate.confidence},
                     {"age_seconds", one.estimate.age_seconds}});
  }
  return links;
}

json DescribeNics(NicWatch& watch) {
  json nics = json::array();
  for (const NicCounters& nic : watch.Counters()) {
    json one = {{"device", nic.device},
                {"sent_bytes", nic.sent_bytes},
                {"received_bytes", nic.received_bytes},
                {"send_drops", nic.send_drops},
                {"receive_drops", nic.receive_drops},
                {"errors", nic.send_errors + nic.receive_errors},
                {"queue", nullptr}};
    if (nic.queue.has_value()) {
      one["queue"] = {{"kind", nic.queue->kind},
                      {"queued_bytes", nic.queue->queued_bytes},
                      {"drops", nic.queue->drops},
                      {"overlimits", nic.queue->overlimits}};
    }
    nics.push_back(std::move(one));
  }
  watch.Look();  // for the next report
  return nics;
}

json DescribeRdma(const NicWatch& watch) {
  const auto known = [](const std::optional<uint64_t>& count) {
    return count.has_value() ? json(*count) : json(nullptr);
  };
  json ports = json::array();
  for (const RdmaCounters& one : watch.Rdma()) {
    ports.push_back(
        {{"device", one.device},
         {"port", one.port},
         {"sent_bytes", known(one.sent_bytes)},
         {"received_bytes", known(one.received_bytes)},
         {"send_wait_ticks", known(one.send_wait_ticks)},
         {"marked_packets", known(one.marked_packets)},
         {"sent_congestion_notifications", known(one.sent_congestion_notifications)},
         {"handled_congestion_notifications", known(one.handled_congestion_notifications)},
         {"out_of_sequence_packets", known(one.out_of_sequence_packets)},
         {"sequence_errors", known(one.sequence_errors)},
         {"acknowledgement_timeouts", known(one.acknowledgement_timeouts)}});
  }
  return ports;
}

/// Returns how the floor of a job fares.
std::string_view FloorStateOf(const ControlledJob& job) {
  if (job.terms.floor <= 0) return "none";
  if (job.floor_refused) return "refused";
  return job.floor_missed ? "missed" : "kept";
}

/// Describes the controller whose word on shares of links is heeded here; at the controller also
/// the jobs that it knows.
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
                    {"held_back_rails", one.held_back},
                    {"waited_bursts", one.waits},
                    {"priority", one.terms.priority},
                    {"bandwidth_floor", one.terms.floor},
                    {"bandwidth_cap", one.terms.cap},
                    {"floor", FloorStateOf(one)}});
  }
  description["hosts"] = loop.controller()->hosts();
  description["jobs"] = std::move(jobs);
  return description;
}

}  // namespace

json TransportStatus(const Cluster& cluster) {
  const transport::TransportCounters counters = cluster.counters();
  return {{"peers", cluster.peers()},
          {"connections_accepted", counters.connections_accepted},
          {"connections_refused", counters.connections_refused},
          {"requests_under_way", counters.requests_under_way},
          {"arrivals_waiting", counters.arrivals_waiting},
          {"arrival_bytes", counters.arrival_bytes}};
}

json ClusterStatus(const ReportSources& sources, uint64_t now_ns) {
  const Cluster& cluster = *sources.cluster;
  const ControlLoop& loop = *sources.control_loop;
  const VersionRange& spoken = cluster.versions();
  json status = {{"address", cluster.address()},
                 {"host", cluster.host_name()},
                 {"protocol", {{"oldest", spoken.oldest}, {"latest", spoken.latest}}},
                 {"linked_daemons", cluster.peers()},
                 {"links", DescribeLinks(cluster)},
                 {"daemons_of_other_releases", cluster.of_other_releases()}};
  if (loop.nics() != nullptr) {
    status["nics"] = DescribeNics(*loop.nics());
    status["rdma_ports"] = DescribeRdma(*loop.nics());
  }
  if (loop.controller_link() != nullptr) status["controller"] = DescribeController(loop);
  if (loop.links() != nullptr) {
    status["fabric_links"] = DescribeFabricLinks(*loop.links(), cluster.fabric()->fabric(),
                                                 static_cast<double>(now_ns) * 1e-9);
  }
  return status;
}

}  // namespace harmonaize::daemon
