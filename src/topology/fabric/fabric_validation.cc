#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "src/topology/fabric/fabric.h"
#include "src/topology/fabric/fabric_routing.h"

namespace harmonaize {
namespace {

// Most characters of an interface's name in the kernel (IFNAMSIZ without the final zero).
constexpr size_t kLongestDevice = 15;

bool IsDevice(const std::string& name) {
  return !name.empty() && name.size() <= kLongestDevice && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](unsigned char letter) {
           return std::isalnum(letter) || letter == '_' || letter == '-' || letter == '.';
         });
}

Status CheckNames(const Fabric& fabric) {
  std::set<std::string_view> nodes;
  for (const Node& node : fabric.nodes) {
    if (!IsFabricName(node.name)) {
      return InvalidArgument(
          "'{}' cannot name a {}: a name has up to 32 letters, digits, '_' and '-'", node.name,
          NodeKindName(node.kind));
    }
    if (!nodes.insert(node.name).second) {
      return InvalidArgument("two nodes are named '{}'", node.name);
    }
  }
  std::set<std::string_view> links;
  for (const Link& link : fabric.links) {
    if (!links.insert(link.name).second) {
      return InvalidArgument("two links are named '{}'", link.name);
    }
  }
  return Status::Ok();
}

Status CheckLinks(const Fabric& fabric) {
  for (const Link& link : fabric.links) {
    if (link.ends[0].node == link.ends[1].node) {
      return InvalidArgument("link '{}' joins '{}' with itself", link.name,
                             fabric.nodes[static_cast<size_t>(link.ends[0].node)].name);
    }
    for (const double rate : link.bytes_per_second) {
      if (!(rate > 0)) return InvalidArgument("link '{}' has no rate", link.name);
    }
  }
  return Status::Ok();
}

Status CheckLinked(const Fabric& fabric) {
  if (fabric.Hosts().empty()) return InvalidArgument("the fabric has no host");
  std::set<int> linked;
  for (const Edge& edge : fabric.Edges()) linked.insert(edge.from);
  for (size_t i = 0; i < fabric.nodes.size(); ++i) {
    const Node& node = fabric.nodes[i];
    if (!linked.contains(static_cast<int>(i))) {
      return InvalidArgument("{} '{}' has no link", NodeKindName(node.kind), node.name);
    }
    for (const Nic& nic : node.nics) {
      if (nic.link < 0) {
        return InvalidArgument("no link ends at NIC '{}' of host '{}'", nic.device, node.name);
      }
    }
  }
  return Status::Ok();
}

// `names` are those of one host; `owners` those of the addresses of all hosts.
Status CheckEnd(const std::string& host, const std::string& device, const std::string& address,
                std::set<std::string>* names, std::map<std::string, std::string>* owners) {
  if (!IsDevice(device)) {
    return InvalidArgument("'{}' of host '{}' cannot name a device (15 characters at most)", device,
                           host);
  }
  if (!names->insert(device).second) {
    return InvalidArgument("host '{}' has two devices named '{}'", host, device);
  }
  in_addr parsed{};
  if (::inet_pton(AF_INET, address.c_str(), &parsed) != 1) {
    return InvalidArgument("'{}' of device '{}' of host '{}' is no IPv4 address", address, device,
                           host);
  }
  const auto [other, is_new] = owners->emplace(address, host);
  if (is_new) return Status::Ok();
  return InvalidArgument("address {} belongs to host '{}' and to host '{}'", address, other->second,
                         host);
}

Status CheckDevices(const Fabric& fabric) {
  std::map<std::string, std::string> owners;
  for (const Node& node : fabric.nodes) {
    std::set<std::string> names;
    for (const Nic& nic : node.nics) {
      HZ_RETURN_IF_ERROR(CheckEnd(node.name, nic.device, nic.address, &names, &owners));
      if (nic.paths.size() != static_cast<size_t>(fabric.explicit_paths)) {
        return InvalidArgument(
            "NIC '{}' of host '{}' has {} explicit paths, and the fabric {}: state as many for "
            "each NIC, or none at all",
            nic.device, node.name, nic.paths.size(), fabric.explicit_paths);
      }
      for (const PathEndpoint& path : nic.paths) {
        HZ_RETURN_IF_ERROR(CheckEnd(node.name, path.device, path.address, &names, &owners));
      }
    }
  }
  return Status::Ok();
}

bool Reach(const Fabric& fabric, const FabricRouting& routing, int from, int to) {
  const size_t nics = fabric.nodes[static_cast<size_t>(to)].nics.size();
  for (size_t nic = 0; nic < nics; ++nic) {
    if (routing.Distance(from, {to, static_cast<int>(nic)}) >= 0) return true;
  }
  return false;
}

Status CheckConnected(const Fabric& fabric) {
  const FabricRouting routing(fabric);
  const std::vector<int> hosts = fabric.Hosts();
  for (const int from : hosts) {
    for (const int to : hosts) {
      if (Reach(fabric, routing, from, to)) continue;
      return InvalidArgument(
          "host '{}' is disconnected from host '{}': no links lead from one to "
          "the other through switches or hosts that forward",
          fabric.nodes[static_cast<size_t>(from)].name, fabric.nodes[static_cast<size_t>(to)].name);
    }
  }
  return Status::Ok();
}

}  // namespace

Status ValidateFabric(const Fabric& fabric) {
  HZ_RETURN_IF_ERROR(CheckNames(fabric));
  HZ_RETURN_IF_ERROR(CheckLinks(fabric));
  HZ_RETURN_IF_ERROR(CheckLinked(fabric));
  HZ_RETURN_IF_ERROR(CheckConnected(fabric));
  return CheckDevices(fabric);
}

}  // namespace harmonaize
