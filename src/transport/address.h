#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize::transport {

/// An IPv4 or IPv6 address with a port. A plain value.
class NetworkAddress {
 public:
  NetworkAddress() = default;

  /// "10.0.0.1:7000", "[fd00::1]:7000", "[fe80::1%eth0]:7000"; without a port ("10.0.0.1",
  /// "fd00::1") it is `default_port`. Host names are refused: to look one up may take seconds, and
  /// nobody who connects here can wait.
  /// Errors: kInvalidArgument.
  static Result<NetworkAddress> Parse(std::string_view text, uint16_t default_port = 0);

  /// What the kernel gave. An empty address for a family that is neither IPv4 nor IPv6.
  static NetworkAddress From(const sockaddr* address);

  bool empty() const { return storage_.ss_family == AF_UNSPEC; }
  int family() const { return storage_.ss_family; }
  uint16_t port() const;
  void set_port(uint16_t port);
  bool IsLoopback() const;
  /// 0.0.0.0 or ::
  bool IsWildcard() const;
  bool IsLinkLocal() const;

  /// As Parse reads it.
  std::string ToString() const;
  /// Without the port.
  std::string HostText() const;

  /// Whether both name the same host, whatever the port.
  bool SameHost(const NetworkAddress& other) const;
  /// Whether the first `bits` of both addresses are equal, and their families.
  bool SamePrefix(const NetworkAddress& other, int bits) const;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const;

 private:
  std::string_view Bytes() const;

  sockaddr_storage storage_{};
};

}  // namespace harmonaize::transport
