#include "daemon/reports/status_tuning.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "daemon/cluster/cluster.h"
#include "daemon/nccl_tuning/nccl_tuning.h"

namespace harmonaize::daemon {

using nlohmann::json;

namespace {

// NCCL's log writes the hash of a communicator's id in this way.
std::string NameOf(const TunedKey& key) {
  return fmt::format("{:#x}", key.communicator);
}

json DescribeHere(const NcclTuning::Here& one) {
  return {{"communicator", NameOf(one.key)}, {"user", one.key.user},   {"ranks", one.ranks},
          {"ranks_here", one.here},          {"changes", one.changes}, {"has_home", one.has_home}};
}

json DescribeAtHome(const TunedReport& one, const Cluster& cluster) {
  json hosts = json::array();
  for (const int host : one.hosts) hosts.push_back(cluster.fabric()->HostName(host));
  return {{"communicator", NameOf(one.key)},
          {"user", one.key.user},
          {"ranks", one.ranks},
          {"known_ranks", one.known_ranks},
          {"hosts", std::move(hosts)},
          {"changes", one.changes},
          {"largest_factor", one.slowdown},
          {"stays_as_it_is", one.stays_as_it_is}};
}

}  // namespace

json TuningStatus(const ReportSources& sources, const Reader& reader) {
  json here = json::array();
  for (const NcclTuning::Here& one : sources.nccl_tuning->ReportHere()) {
    if (reader.is_operator || one.tenant == reader.tenant) here.push_back(DescribeHere(one));
  }
  json status = {{"here", std::move(here)}};
  if (!reader.is_operator) return status;
  status["home"] = json::array();
  for (const TunedReport& one : sources.nccl_tuning->Report()) {
    status["home"].push_back(DescribeAtHome(one, *sources.cluster));
  }
  return status;
}

}  // namespace harmonaize::daemon
