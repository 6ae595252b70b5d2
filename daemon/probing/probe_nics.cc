#include "daemon/probing/probe_nics.h"

#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "src/base/file_descriptor.h"
#include "src/topology/fabric/fabric.h"
#include "src/transport/address.h"

namespace harmonaize::daemon {
namespace {

/// Longest name of a host in a fabric, in characters.
constexpr size_t kLongestName = 32;
/// Most NICs that are probed: as many as TransportOptions::rails may have. More would be measured
/// for nothing.
constexpr size_t kMostNics = 16;

struct FreeAddresses {
  void operator()(ifaddrs* first) const { freeifaddrs(first); }
};

/// What the kernel says about a device beyond its flags.
struct Device {
  int below =
      0;  ///< Index of the device of this host on which it stands, or its other end; 0: none.
  std::string kind;  ///< "veth", "vlan", ...; "" for hardware.
};

std::string KindOf(const rtattr* information) {
  auto left = static_cast<int>(RTA_PAYLOAD(information));
  for (const auto* one = static_cast<const rtattr*>(RTA_DATA(information)); RTA_OK(one, left);
       one = RTA_NEXT(one, left)) {
    if (one->rta_type != IFLA_INFO_KIND) continue;
    const auto* text = static_cast<const char*>(RTA_DATA(one));
    return std::string(text, strnlen(text, RTA_PAYLOAD(one)));
  }
  return "";
}

Device ReadDevice(const nlmsghdr* message) {
  Device device;
  bool elsewhere = false;
  auto left = static_cast<int>(IFLA_PAYLOAD(message));
  const auto* information = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
  for (const rtattr* one = IFLA_RTA(information); RTA_OK(one, left); one = RTA_NEXT(one, left)) {
    if (one->rta_type == IFLA_LINK) std::memcpy(&device.below, RTA_DATA(one), sizeof(int));
    if (one->rta_type == IFLA_LINK_NETNSID) elsewhere = true;
    if (one->rta_type == IFLA_LINKINFO) device.kind = KindOf(one);
  }
  if (elsewhere || device.below == information->ifi_index) device.below = 0;
  return device;
}

/// Returns the devices by index; empty if the kernel does not tell them.
std::map<int, Device> ListDevices() {
  std::map<int, Device> devices;
  const FileDescriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  struct {
    nlmsghdr header{};
    ifinfomsg information{};
  } request;
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  if (!socket.valid() || ::send(socket.get(), &request, sizeof(request), 0) < 0) return devices;
  alignas(nlmsghdr) char buffer[64 * 1024];
  for (;;) {
    const ssize_t got = ::recv(socket.get(), buffer, sizeof(buffer), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return devices;
    auto left = static_cast<unsigned>(got);
    for (const auto* one = reinterpret_cast<const nlmsghdr*>(buffer); NLMSG_OK(one, left);
         one = NLMSG_NEXT(one, left)) {
      if (one->nlmsg_type == NLMSG_DONE || one->nlmsg_type == NLMSG_ERROR) return devices;
      if (one->nlmsg_type != RTM_NEWLINK) continue;
      const auto* information = static_cast<const ifinfomsg*>(NLMSG_DATA(one));
      devices[information->ifi_index] = ReadDevice(one);
    }
  }
}

/// Returns the devices that are up and have an IPv4 address, each with its first one, in the
/// kernel's order.
Result<std::vector<ProbedNic>> ListAddresses() {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return ErrnoError(errno, "cannot list this host's addresses");
  const std::unique_ptr<ifaddrs, FreeAddresses> first(found);
  std::vector<ProbedNic> nics;
  for (const ifaddrs* one = first.get(); one != nullptr; one = one->ifa_next) {
    const unsigned up = IFF_UP | IFF_RUNNING;
    if ((one->ifa_flags & up) != up || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const auto address = transport::NetworkAddress::From(one->ifa_addr);
    if (address.family() != AF_INET || address.IsLinkLocal()) continue;
    const std::string device = one->ifa_name;
    if (device.find(':') != std::string::npos) continue;  // a second address of a device
    const bool known = std::any_of(nics.begin(), nics.end(),
                                   [&](const ProbedNic& nic) { return nic.device == device; });
    if (!known) nics.push_back({device, address.HostText()});
  }
  return nics;
}

Result<std::vector<ProbedNic>> NicsByThemselves() {
  Result<std::vector<ProbedNic>> nics = ListAddresses();
  if (!nics.ok()) return nics;
  std::map<int, Device> devices = ListDevices();
  std::set<int> with_address;
  const auto index = [](const ProbedNic& nic) {
    return static_cast<int>(::if_nametoindex(nic.device.c_str()));
  };
  for (const ProbedNic& nic : *nics) with_address.insert(index(nic));
  std::erase_if(*nics, [&](const ProbedNic& nic) {
    const Device& device = devices[index(nic)];
    const bool leads_back = device.kind == "dummy" || (device.kind == "veth" && device.below != 0);
    return leads_back || with_address.contains(device.below);
  });
  if (nics->size() > kMostNics) nics->resize(kMostNics);
  return nics;
}

}  // namespace

Result<std::vector<ProbedNic>> NicsToProbe(const Cluster& cluster) {
  std::vector<ProbedNic> nics;
  if (cluster.fabric() != nullptr) {
    const Fabric& fabric = cluster.fabric()->fabric();
    for (const Nic& nic :
         fabric.nodes[static_cast<size_t>(fabric.FindNode(cluster.host_name()))].nics) {
      nics.push_back({nic.device, nic.address});
    }
    return nics;
  }
  const auto address = transport::NetworkAddress::Parse(cluster.address());
  if (address.ok() && address->IsLoopback() && address->family() == AF_INET) {
    nics.push_back({"lo", address->HostText()});
    return nics;
  }
  Result<std::vector<ProbedNic>> found = NicsByThemselves();
  if (found.ok() && found->empty()) {
    return InvalidUsage("it has no device that is up and has an IPv4 address");
  }
  return found;
}

std::string HostNameToProbe(const ClusterConfig& config) {
  if (!config.host.empty()) return FitFabricName(config.host);
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) name[0] = '\0';
  return FitFabricName(name);
}

std::string FitFabricName(std::string_view text) {
  std::string name(text.substr(0, text.find('.')).substr(0, kLongestName));
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char letter) {
        return letter >= 0x80 || (!std::isalnum(letter) && letter != '_' && letter != '-');
      },
      '-');
  return IsFabricName(name) ? name : "host";
}

}  // namespace harmonaize::daemon
