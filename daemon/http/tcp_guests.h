#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/http/http_services.h"

namespace harmonaize::daemon {

/// Counts TCP connections by their remote addresses and tokens. Strangers can hold few places, and
/// where these are taken the oldest stranger goes: whoever floods the port sends away itself, and a
/// newcomer with a token has the time that it takes to show it. Thread: one.
class TcpGuests {
 public:
  explicit TcpGuests(const HttpLimits& limits) : limits_(limits) {}

  /// Adds a stranger under a number that is above those of all before it. Returns the number of a
  /// stranger that has to go for it, if any.
  std::optional<uint64_t> Enter(uint64_t guest, const std::string& address);
  /// Notes that a guest has shown a token. Returns false, and notes nothing, if there are as many
  /// connections of the token, of the address or altogether as there may be.
  bool ShowToken(uint64_t guest, const std::string& token);
  void Leave(uint64_t guest);
  std::vector<uint64_t> WithToken(const std::string& token) const;
  size_t count() const { return strangers_.size() + known_.size(); }

 private:
  struct Guest {
    std::string address;
    std::string token;
  };

  bool HasRoom(const Guest& guest, const std::string& token) const;

  const HttpLimits limits_;
  std::map<uint64_t, Guest> strangers_;
  std::map<uint64_t, Guest> known_;
};

/// Returns the text under which an address is counted: of IPv6 the first 64 bits, all of which one
/// host may have.
std::string AddressKey(const std::string& address);

}  // namespace harmonaize::daemon
