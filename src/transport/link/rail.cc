#include "src/transport/link/rail.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "src/transport/ucx/rdma_devices.h"
#include "src/transport/ucx/ucx_library.h"

namespace harmonaize::transport {
namespace {

struct FreeAddresses {
  void operator()(ifaddrs* first) const { freeifaddrs(first); }
};

int PrefixBits(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const NetworkAddress address = NetworkAddress::From(mask);
  // The number of leading ones is the length of the longest prefix shared with all ones.
  sockaddr_storage ones{};
  std::memset(&ones, 0xff, sizeof ones);
  ones.ss_family = static_cast<sa_family_t>(address.family());
  const NetworkAddress all = NetworkAddress::From(reinterpret_cast<const sockaddr*>(&ones));
  int bits = address.family() == AF_INET ? 32 : 128;
  while (bits > 0 && !address.SamePrefix(all, bits)) --bits;
  return bits;
}

std::vector<RailOptions> UcxRails() {
  std::vector<RailOptions> rails;
  for (const RdmaPort& port : ListRdmaPorts()) {
    if (!port.active) continue;
    RailOptions rail;
    rail.kind = RailOptions::Kind::kUcx;
    rail.device = port.UcxName();
    rails.push_back(std::move(rail));
  }
  return rails;
}

RailOptions TcpRail(const std::string& device, const NetworkAddress& address, int prefix_bits) {
  RailOptions rail;
  rail.device = device;
  rail.address = address;
  rail.address.set_port(0);
  rail.prefix_bits = prefix_bits;
  return rail;
}

std::vector<RailOptions> TcpRails(int family) {
  std::vector<RailOptions> rails;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return rails;
  const std::unique_ptr<ifaddrs, FreeAddresses> first(found);
  for (const ifaddrs* one = first.get(); one != nullptr; one = one->ifa_next) {
    const unsigned up = IFF_UP | IFF_RUNNING;
    if ((one->ifa_flags & up) != up || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const NetworkAddress address = NetworkAddress::From(one->ifa_addr);
    if (address.family() != family || address.IsLinkLocal()) continue;
    const std::string device = one->ifa_name;
    if (std::ranges::any_of(rails, [&](const auto& rail) { return rail.device == device; })) {
      continue;
    }
    rails.push_back(TcpRail(device, address, PrefixBits(one->ifa_netmask)));
  }
  return rails;
}

}  // namespace

std::string RailName(const RailOptions& rail) {
  if (rail.kind == RailOptions::Kind::kUcx) return rail.device;
  return rail.device.empty() ? rail.address.HostText()
                             : fmt::format("{} {}", rail.device, rail.address.HostText());
}

int SpreadConnections(size_t rails) {
  const size_t share = kMaxConnections / std::max<size_t>(rails, 1);
  return static_cast<int>(std::clamp<size_t>(share, 1, kSpreadConnections));
}

std::vector<RailOptions> DiscoverRails(const NetworkAddress& address) {
  if (address.IsLoopback()) return {TcpRail("lo", address, 8)};
  std::vector<RailOptions> rails = UcxRails();
  if (!rails.empty() && UcxLibrary::Load().ok()) return rails;
  rails = TcpRails(address.family());
  if (rails.size() > kMaxRails) rails.resize(kMaxRails);
  for (RailOptions& rail : rails) rail.connections = SpreadConnections(rails.size());
  return rails;
}

std::vector<RailPair> PairRails(const std::vector<RailAnnouncement>& initiator,
                                const std::vector<RailAnnouncement>& acceptor) {
  std::vector<RailPair> pairs;
  std::vector<bool> taken(acceptor.size(), false);
  std::vector<bool> paired(initiator.size(), false);
  const auto suits = [&](size_t i, size_t j, bool same_network) {
    const RailAnnouncement& a = initiator[i];
    const RailAnnouncement& b = acceptor[j];
    if (paired[i] || taken[j] || a.kind != b.kind) return false;
    if (a.kind == RailAnnouncement::Kind::kUcx) return true;
    const Result<NetworkAddress> from = NetworkAddress::Parse(a.address);
    const Result<NetworkAddress> to = NetworkAddress::Parse(b.address);
    if (!from.ok() || !to.ok() || from->family() != to->family()) return false;
    return !same_network || (a.prefix_bits > 0 && from->SamePrefix(*to, a.prefix_bits));
  };
  for (const bool same_network : {true, false}) {
    for (size_t i = 0; i < initiator.size(); ++i) {
      for (size_t j = 0; j < acceptor.size(); ++j) {
        if (!suits(i, j, same_network)) continue;
        paired[i] = taken[j] = true;
        pairs.push_back({static_cast<uint8_t>(i), static_cast<uint8_t>(j)});
      }
    }
  }
  std::ranges::sort(pairs, {}, &RailPair::initiator);
  return pairs;
}

}  // namespace harmonaize::transport
