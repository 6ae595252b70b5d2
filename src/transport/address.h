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

  /// Parses "10.0.0.1:7000", "[fd00::1]:7000" or "[fe80::1%eth0]:7000"; without a port ("10.0.0.1",
  /// "fd00::1") the port is `default_port`. Host names are refused: a look-up may take seconds, and
  /// the callers cannot wait. Errors: kInvalidArgument.
  static Result<NetworkAddress> Parse(std::string_view text, uint16_t default_port = 0);

  /// Copies an address from the kernel. Empty for a family that is neither IPv4 nor IPv6.
  static NetworkAddress From(const sockaddr* address);

  bool empty() const { return storage_.ss_family == AF_UNSPEC; }
  int family() const { return storage_.ss_family; }
  uint16_t port() const;
  void set_port(uint16_t port);
  bool IsLoopback() const;
  /// Returns whether it is 0.0.0.0 or ::.
  bool IsWildcard() const;
  bool IsLinkLocal() const;

  /// Returns the text that Parse reads.
  std::string ToString() const;
  /// Returns the text without the port.
  std::string HostText() const;

  /// Returns whether both name the same host, whatever the port.
  bool SameHost(const NetworkAddress& other) const;
  /// Returns whether both have the same family and the same first `bits`.
  bool SamePrefix(const NetworkAddress& other, int bits) const;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const;

 private:
  std::string_view Bytes() const;

  sockaddr_storage storage_{};
};

}  // namespace harmonaize::transport
