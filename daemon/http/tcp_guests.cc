#include "daemon/http/tcp_guests.h"

#include <arpa/inet.h>

#include <algorithm>
#include <span>
#include <utility>

#include "src/base/base64_url.h"
#include "src/base/hex.h"

namespace harmonaize::daemon {

TcpGuests::Entrance TcpGuests::Enter(uint64_t guest, const std::string& address, Time now) {
  const std::optional<uint64_t> oldest = InTheWayOf(address);
  if (oldest.has_value() && now - strangers_.at(*oldest).since < limits_.stranger_stays) {
    return {.admitted = false};
  }
  strangers_[guest] = {.address = address, .token = "", .since = now};
  return {.admitted = true, .leaves = oldest};
}

// Returns the stranger whose place a newcomer needs. The numbers grow, so the first is the oldest.
std::optional<uint64_t> TcpGuests::InTheWayOf(const std::string& address) const {
  std::map<std::string, std::vector<uint64_t>> held;
  for (const auto& [number, one] : strangers_) held[one.address].push_back(number);
  const auto same = held.find(address);
  if (same != held.end() && same->second.size() >= limits_.address_strangers) {
    return same->second.front();
  }
  if (strangers_.size() < limits_.strangers || strangers_.empty()) return std::nullopt;
  // Of all addresses the one with the most strangers gives up a place.
  return std::max_element(held.begin(), held.end(),
                          [](const auto& one, const auto& other) {
                            return one.second.size() < other.second.size();
                          })
      ->second.front();
}

bool TcpGuests::HasRoom(const Guest& guest, const std::string& token) const {
  size_t of_token = 0;
  size_t of_address = 0;
  for (const auto& [number, one] : known_) {
    of_token += one.token == token ? 1 : 0;
    of_address += one.address == guest.address ? 1 : 0;
  }
  return of_token < limits_.token_connections && of_address < limits_.address_connections &&
         known_.size() < limits_.tcp_connections;
}

bool TcpGuests::ShowToken(uint64_t guest, const std::string& token) {
  const auto known = known_.find(guest);
  if (known != known_.end() && known->second.token == token) return true;
  const auto stranger = strangers_.find(guest);
  if (known == known_.end() && stranger == strangers_.end()) return false;
  Guest entry = known != known_.end() ? known->second : stranger->second;
  if (!HasRoom(entry, token)) return false;
  entry.token = token;
  if (stranger != strangers_.end()) strangers_.erase(stranger);
  known_[guest] = std::move(entry);
  return true;
}

void TcpGuests::Leave(uint64_t guest) {
  strangers_.erase(guest);
  known_.erase(guest);
}

std::vector<uint64_t> TcpGuests::WithToken(const std::string& token) const {
  std::vector<uint64_t> guests;
  for (const auto& [number, guest] : known_) {
    if (guest.token == token) guests.push_back(number);
  }
  return guests;
}

std::string AddressKey(const std::string& address) {
  in6_addr parsed{};
  if (inet_pton(AF_INET6, address.c_str(), &parsed) != 1) return address;
  const std::span<const uint8_t> bytes(parsed.s6_addr);
  // An IPv4 address that came to an IPv6 socket.
  if (IN6_IS_ADDR_V4MAPPED(&parsed)) return HexOf(bytes.last(4));
  return HexOf(bytes.first(8));
}

}  // namespace harmonaize::daemon
