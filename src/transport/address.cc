#include "src/transport/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>

namespace harmonaize::transport {
namespace {

Status BadAddress(std::string_view text) {
  return InvalidArgument(
      "'{}' is no network address; write an IPv4 or IPv6 address in digits with a port, such as "
      "10.0.0.1:7000 or [fd00::1]:7000 (host names are not looked up)",
      text);
}

bool ParsePort(std::string_view text, uint16_t* port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *port);
  return error == std::errc() && end == text.data() + text.size();
}

struct Parts {
  std::string host;
  std::string_view port;  ///< Empty: none given.
  bool good = true;
};

Parts Split(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return {"", "", false};
    const std::string_view rest = text.substr(close + 1);
    const bool good = rest.empty() || (rest.size() > 1 && rest.front() == ':');
    return {std::string(text.substr(1, close - 1)), rest.empty() ? rest : rest.substr(1), good};
  }
  const size_t colon = text.find(':');
  // More than one colon: IPv6 without brackets, and so without a port.
  if (colon == std::string_view::npos || text.find(':', colon + 1) != std::string_view::npos) {
    return {std::string(text), "", true};
  }
  return {std::string(text.substr(0, colon)), text.substr(colon + 1), colon + 1 < text.size()};
}

}  // namespace

Result<NetworkAddress> NetworkAddress::Parse(std::string_view text, uint16_t default_port) {
  Parts parts = Split(text);
  uint16_t port = default_port;
  if (!parts.good || (!parts.port.empty() && !ParsePort(parts.port, &port))) {
    return BadAddress(text);
  }
  NetworkAddress address;
  in_addr v4{};
  if (inet_pton(AF_INET, parts.host.c_str(), &v4) == 1) {
    auto* out = reinterpret_cast<sockaddr_in*>(&address.storage_);
    out->sin_family = AF_INET;
    out->sin_addr = v4;
    out->sin_port = htons(port);
    return address;
  }
  auto* out = reinterpret_cast<sockaddr_in6*>(&address.storage_);
  const size_t percent = parts.host.find('%');
  if (percent != std::string::npos) {
    out->sin6_scope_id = if_nametoindex(parts.host.c_str() + percent + 1);
    if (out->sin6_scope_id == 0) {
      return InvalidArgument("'{}' names a network device that this host has not", text);
    }
    parts.host.resize(percent);
  }
  if (inet_pton(AF_INET6, parts.host.c_str(), &out->sin6_addr) != 1) return BadAddress(text);
  out->sin6_family = AF_INET6;
  out->sin6_port = htons(port);
  return address;
}

NetworkAddress NetworkAddress::From(const sockaddr* from) {
  NetworkAddress address;
  if (from == nullptr) return address;
  if (from->sa_family == AF_INET) {
    std::memcpy(&address.storage_, from, sizeof(sockaddr_in));
  } else if (from->sa_family == AF_INET6) {
    std::memcpy(&address.storage_, from, sizeof(sockaddr_in6));
  }
  return address;
}

uint16_t NetworkAddress::port() const {
  // The port is at the same offset in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

void NetworkAddress::set_port(uint16_t port) {
  reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = htons(port);
}

std::string_view NetworkAddress::Bytes() const {
  if (family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage_);
    return {reinterpret_cast<const char*>(&v4->sin_addr), sizeof v4->sin_addr};
  }
  if (family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage_);
    return {reinterpret_cast<const char*>(&v6->sin6_addr), sizeof v6->sin6_addr};
  }
  return {};
}

bool NetworkAddress::IsLoopback() const {
  if (family() == AF_INET) return Bytes()[0] == 127;
  return family() == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
}

bool NetworkAddress::IsWildcard() const {
  return !empty() && Bytes().find_first_not_of('\0') == std::string_view::npos;
}

bool NetworkAddress::IsLinkLocal() const {
  return family() == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
}

std::string NetworkAddress::HostText() const {
  if (empty()) return "nowhere";
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family(), Bytes().data(), text, sizeof text);
  std::string host = text;
  if (IsLinkLocal()) {
    char device[IF_NAMESIZE] = {};
    const uint32_t scope = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_scope_id;
    if (if_indextoname(scope, device) != nullptr) host += std::string("%") + device;
  }
  return host;
}

std::string NetworkAddress::ToString() const {
  if (empty()) return "nowhere";
  return family() == AF_INET6 ? fmt::format("[{}]:{}", HostText(), port())
                              : fmt::format("{}:{}", HostText(), port());
}

bool NetworkAddress::SameHost(const NetworkAddress& other) const {
  return family() == other.family() && Bytes() == other.Bytes();
}

bool NetworkAddress::SamePrefix(const NetworkAddress& other, int bits) const {
  if (family() != other.family() || empty()) return false;
  const size_t whole = static_cast<size_t>(bits) / 8;
  if (whole >= Bytes().size()) return Bytes() == other.Bytes();
  if (Bytes().substr(0, whole) != other.Bytes().substr(0, whole)) return false;
  const int rest = bits % 8;
  const unsigned difference =
      static_cast<uint8_t>(Bytes()[whole]) ^ static_cast<uint8_t>(other.Bytes()[whole]);
  return (difference >> (8 - rest)) == 0;
}

socklen_t NetworkAddress::length() const {
  return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

}  // namespace harmonaize::transport
