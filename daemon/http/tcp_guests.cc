#include "daemon/http/tcp_guests.h"

#include <arpa/inet.h>

#include <algorithm>
#include <span>
#include <utility>

#include "daemon/http/base64_url.h"
#include "src/base/hex.h"

namespace harmonaize::daemon {

std::optional<uint64_t> TcpGuests::Enter(uint64_t guest, const std::string& address) {
  std::optional<uint64_t> leaves;
  const auto of_address = std::count_if(strangers_.begin(), strangers_.end(), [&](const auto& one) {
    return one.second.address == address;
  });
  // The numbers grow, so the first is the oldest.
  if (static_cast<size_t>(of_address) >= limits_.address_strangers) {
    leaves = std::find_if(strangers_.begin(), strangers_.end(), [&](const auto& one) {
               return one.second.address == address;
             })->first;
  } else if (strangers_.size() >= limits_.strangers && !strangers_.empty()) {
    leaves = strangers_.begin()->first;
  }
  strangers_[guest] = {address, ""};
  return leaves;
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
