#pragma once

#include <vector>

#include "src/base/status.h"
#include "src/schedule/capacity_graph.h"
#include "src/topology/fabric.h"
#include "src/topology/fabric_routing.h"
#include "src/transport/rail.h"

namespace harmonaize::perf {

/// A fabric as schedules and transports want it. Hosts are numbered by their order in the fabric.
class FabricRails {
 public:
  explicit FabricRails(Fabric fabric);

  const Fabric& fabric() const { return fabric_; }
  int hosts() const { return static_cast<int>(hosts_.size()); }
  /// -1 if there is no host of this name.
  int HostNamed(const std::string& name) const;

  /// Nodes and edges are those of the fabric; capacities in kilobytes a second, times `share`.
  CapacityGraph Capacities(double share) const;

  /// What a host's transport listens at: for each NIC its plain address, which ECMP spreads, then
  /// for each NIC the addresses of its explicit paths. Alike on all hosts.
  Result<std::vector<transport::RailOptions>> RailsOf(int host) const;
  size_t plain_rails() const { return nics_; }
  size_t rails() const { return nics_ * (1 + paths_); }

  /// The rail by which a message takes a route, edges of the fabric, from a host: one that has most
  /// of its edges. (A rail ends at the NIC that has the place of the one where it begins, which
  /// routes need not.) `turn` chooses among several.
  size_t RailOf(int from, int to, const std::vector<int>& route, size_t turn) const;

 private:
  Fabric fabric_;
  FabricRouting routing_;
  std::vector<int> hosts_;  // nodes
  size_t nics_ = 0;         // that every host has
  size_t paths_ = 0;
};

}  // namespace harmonaize::perf
