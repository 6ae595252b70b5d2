#include "src/executor/network/fabric_rails.h"

#include <algorithm>
#include <string>
#include <utility>

namespace harmonaize {
namespace {

// The length of a network's prefix is left out, so daemons pair rails by their numbers.
Result<transport::RailOptions> RailAt(const std::string& device, const std::string& address) {
  HZ_ASSIGN_OR_RETURN(transport::NetworkAddress parsed, transport::NetworkAddress::Parse(address));
  transport::RailOptions rail;
  rail.device = device;
  rail.address = parsed;
  return rail;
}

}  // namespace

FabricRails::FabricRails(const Fabric& fabric) {
  for (const Link& link : fabric.links) {
    link_rates_.push_back(std::min(link.bytes_per_second[0], link.bytes_per_second[1]));
  }
  for (const int host : fabric.Hosts()) {
    const Node& node = fabric.nodes[static_cast<size_t>(host)];
    nics_.push_back(node.nics);
    if (node.forwards) nics_.back().resize(1);
    width_ = std::max(width_, nics_.back().size());
  }
  width_ = std::min(width_, transport::kMaxRails);
  paths_ = std::min(static_cast<size_t>(fabric.explicit_paths), transport::kMaxRails / width_ - 1);
}

Result<std::vector<transport::RailOptions>> FabricRails::RailsOf(int host) const {
  std::vector<transport::RailOptions> rails;
  for (size_t rail = 0; rail < this->rails(); ++rail) {
    const Nic& nic = nics_[static_cast<size_t>(host)][rail % width_ % NicsOf(host)];
    const size_t path = rail / width_;  // from 1; 0: none
    HZ_ASSIGN_OR_RETURN(transport::RailOptions one,
                        path == 0
                            ? RailAt(nic.device, nic.address)
                            : RailAt(nic.paths[path - 1].device, nic.paths[path - 1].address));
    one.bytes_per_second = RateOf(nic);
    if (paths_ == 0) one.connections = transport::SpreadConnections(width_);
    rails.push_back(std::move(one));
  }
  return rails;
}

int FabricRails::RailFor(int from_host, int to_host, int from_nic, int to_nic, int path) const {
  if (path >= static_cast<int>(paths_)) return -1;
  for (size_t place = 0; place < width_; ++place) {
    const bool served = static_cast<int>(place % NicsOf(from_host)) == from_nic &&
                        static_cast<int>(place % NicsOf(to_host)) == to_nic;
    if (served) return static_cast<int>(static_cast<size_t>(path + 1) * width_ + place);
  }
  return -1;
}

std::optional<Lane> FabricRails::LaneOf(int from_host, int to_host, size_t rail) const {
  const bool known = from_host >= 0 && from_host < hosts() && to_host >= 0 && to_host < hosts();
  if (!known || rail >= rails()) return {};
  const size_t place = rail % width_;
  Lane lane{.from_nic = static_cast<int>(place % NicsOf(from_host)),
            .to_nic = static_cast<int>(place % NicsOf(to_host)),
            .path = static_cast<int>(rail / width_) - 1};
  lane.spread = paths_ == 0;
  return lane;
}

}  // namespace harmonaize
