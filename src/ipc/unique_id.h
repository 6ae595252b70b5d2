#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// What ncclUniqueId holds when we made it: 128 bytes.
struct UniqueId {
  static constexpr uint32_t kMagic = 0x445a4148;  // "HAZD"
  enum class Kind : uint32_t {
    kSecret = 1,  ///< Made by a daemon; the token is a secret that only it could have drawn.
    kNamed = 2,   ///< Made from NCCL_COMM_ID; the token is a digest of that text.
  };
  static constexpr size_t kReservedBytes = 88;

  uint32_t magic = kMagic;
  Kind kind = Kind::kSecret;
  std::array<uint8_t, 32> token{};
  /// kSecret: where the daemon that made it is reached, sealed for other daemons; zeros when it is
  /// in no cluster. kNamed: the text, ended by zeros, as far as it fits.
  std::array<uint8_t, kReservedBytes> reserved{};

  auto operator<=>(const UniqueId&) const = default;
};
static_assert(sizeof(UniqueId) == 128);

/// A fresh id with 256 random bits from the kernel.
Result<UniqueId> MakeSecretId();

/// The id that every process computes from the same text, "host:port" as NCCL has it.
UniqueId MakeNamedId(std::string_view text);

/// What a named id was made from, unless it was longer than fits: then "".
std::string NameOfId(const UniqueId& id);

/// A number that stands for the id in logs. It gives away 64 bits of a secret id's 256 at most.
uint64_t DigestOfId(const UniqueId& id);

/// Whether `text` is what NCCL_COMM_ID may be: <ipv4>:<port>, [<ipv6>]:<port> or <hostname>:<port>.
Status CheckNamedId(std::string_view text);

/// Whether the bytes could have come from us.
Status CheckUniqueId(const UniqueId& id);

}  // namespace harmonaize
