#include "src/ipc/unique_id.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "src/base/random.h"

namespace harmonaize {
namespace {

// FNV-1a (Fowler, Noll, Vo, 1991), 64 bits. A name is no secret, and the daemon keeps named ids of
// different tenants apart, so the digest only has to differ for different names.
uint64_t Digest(std::string_view text, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (const char c : text) {
    hash ^= static_cast<uint8_t>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

/// Returns whether `text` is a number from 1 to 65535, in digits alone.
bool IsPort(std::string_view text) {
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, port);
  return failure == std::errc() && stop == end && port != 0;
}

/// Returns whether `text` is an IPv6 address, with its scope if it has one ("fe80::1%eth0").
bool IsAddress6(const std::string& text) {
  in6_addr address = {};
  return inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), &address) == 1;
}

/// Returns whether `text` is an IPv4 address, an IPv6 address in brackets, or may be a host's name.
bool IsHost(const std::string& text) {
  if (text.starts_with('[')) {
    return text.ends_with(']') && IsAddress6(text.substr(1, text.size() - 2));
  }
  const auto is_in_names = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  };
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_in_names)) return false;
  if (text.find_first_not_of("0123456789.") != std::string::npos) return true;
  in_addr address = {};
  return inet_pton(AF_INET, text.c_str(), &address) == 1;
}

}  // namespace

Result<UniqueId> MakeSecretId() {
  UniqueId id;
  HZ_RETURN_IF_ERROR(FillRandom(std::as_writable_bytes(std::span(id.token))));
  return id;
}

UniqueId MakeNamedId(std::string_view text) {
  UniqueId id;
  id.kind = UniqueId::Kind::kNamed;
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t part = Digest(text, i * 0x9e3779b97f4a7c15u);
    std::memcpy(id.token.data() + i * 8, &part, 8);
  }
  if (text.size() < id.reserved.size()) {
    std::memcpy(id.reserved.data(), text.data(), text.size());
  }
  return id;
}

uint64_t DigestOfId(const UniqueId& id) {
  return Digest({reinterpret_cast<const char*>(&id), sizeof id}, 0);
}

Status CheckNamedId(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && IsPort(text.substr(colon + 1)) &&
      IsHost(std::string(text.substr(0, colon)))) {
    return Status::Ok();
  }
  return InvalidArgument(
      "NCCL_COMM_ID is '{}', which is no address with a port: <ipv4>:<port>, [<ipv6>]:<port> or "
      "<hostname>:<port> is",
      text);
}

std::string NameOfId(const UniqueId& id) {
  const auto end = std::find(id.reserved.begin(), id.reserved.end(), uint8_t{0});
  return {id.reserved.begin(), end};
}

Status CheckUniqueId(const UniqueId& id) {
  if (id.magic != UniqueId::kMagic ||
      (id.kind != UniqueId::Kind::kSecret && id.kind != UniqueId::Kind::kNamed)) {
    return InvalidArgument(
        "the unique id was not made by Harmonaize: every rank must load the same NCCL library, and "
        "the 128 bytes must reach all ranks unchanged");
  }
  return Status::Ok();
}

Status CheckDoor(const UniqueId& door) {
  if (door.magic == UniqueId::kMagic && door.kind == UniqueId::Kind::kDoor) return Status::Ok();
  return InvalidArgument(
      "the address of the other process was not made by Harmonaize: both processes must load the "
      "same plugin, and the handle must reach the other one unchanged");
}

}  // namespace harmonaize
