#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/http/http_services.h"

namespace harmonaize::daemon {

/// Counts TCP connections by their remote addresses and tokens. Strangers can hold few places, and
/// where these are taken the oldest stranger goes, or the newcomer where even the oldest has not
/// had HttpLimits::stranger_stays. So whoever floods the port sends away itself, and a caller with
/// a token that has come in has the time that it takes to show it. Thread: one.
class TcpGuests {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// What becomes of a newcomer.
  struct Entrance {
    bool admitted = true;
    std::optional<uint64_t> leaves = {};  ///< A stranger that has to go for it, if any.
  };

  explicit TcpGuests(const HttpLimits& limits) : limits_(limits) {}

  /// Adds a stranger under a number that is above those of all before it, unless there is no place
  /// for it. `address`: what it is counted under.
  Entrance Enter(uint64_t guest, const std::string& address, Time now);
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
    Time since{};  ///< When it came in.
  };

  std::optional<uint64_t> InTheWayOf(const std::string& address) const;
  bool HasRoom(const Guest& guest, const std::string& token) const;

  const HttpLimits limits_;
  std::map<uint64_t, Guest> strangers_;
  std::map<uint64_t, Guest> known_;
};

/// Returns the text under which an address is counted: of IPv6 the first 64 bits, all of which one
/// host may have.
std::string AddressKey(const std::string& address);

}  // namespace harmonaize::daemon
