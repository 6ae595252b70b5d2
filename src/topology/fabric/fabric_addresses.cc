#include "src/topology/fabric/fabric_addresses.h"

#include <arpa/inet.h>

#include <charconv>
#include <cstdint>

namespace harmonaize {
namespace {

// Least addresses of a block: a /24 makes them easy to read.
constexpr uint64_t kSmallestBlock = 256;

struct Network {
  uint32_t base = 0;  // in host order
  uint64_t size = 0;
};

Result<Network> ParseNetwork(std::string_view text) {
  const Status wrong =
      InvalidArgument("'{}' is no IPv4 network; write one as in \"{}\"", text, kDefaultNetwork);
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return wrong;
  in_addr base{};
  if (::inet_pton(AF_INET, std::string(text.substr(0, slash)).c_str(), &base) != 1) return wrong;
  int length = -1;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + slash + 1, end, length);
  if (parsed.ec != std::errc() || parsed.ptr != end || length < 1 || length > 32) return wrong;
  const Network network{.base = ntohl(base.s_addr), .size = uint64_t{1} << (32 - length)};
  if (network.base % network.size != 0) return wrong;
  return network;
}

std::string Dotted(uint64_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24 & 255, address >> 16 & 255, address >> 8 & 255,
                     address & 255);
}

}  // namespace

Status CheckNetwork(std::string_view network) {
  return ParseNetwork(network).status();
}

std::string PathDevice(std::string_view nic, size_t path) {
  return fmt::format("{}.p{}", nic, path);
}

Status AssignAddresses(std::string_view network, Fabric* fabric) {
  HZ_ASSIGN_OR_RETURN(const Network range, ParseNetwork(network));
  const std::vector<Endpoint> endpoints = fabric->Endpoints();
  // The first and the last address of a block stay unused, as is customary.
  uint64_t block = kSmallestBlock;
  while (block < endpoints.size() + 2) block *= 2;
  const uint64_t blocks = 1 + static_cast<uint64_t>(fabric->explicit_paths);
  if (block * blocks > range.size) {
    return InvalidArgument("network {} has too few addresses for {} blocks of {}", network, blocks,
                           block);
  }
  uint64_t address = range.base;
  for (const Endpoint& endpoint : endpoints) {
    ++address;
    Nic& nic =
        fabric->nodes[static_cast<size_t>(endpoint.host)].nics[static_cast<size_t>(endpoint.nic)];
    if (nic.address.empty()) nic.address = Dotted(address);
    if (!nic.paths.empty()) continue;
    for (uint64_t path = 0; path + 1 < blocks; ++path) {
      nic.paths.push_back({PathDevice(nic.device, path), Dotted(address + (path + 1) * block)});
    }
  }
  return Status::Ok();
}

}  // namespace harmonaize
