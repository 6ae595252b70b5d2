#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Content of an ncclUniqueId that this library made: 128 bytes.
struct UniqueId {
  static constexpr uint32_t kMagic = 0x445a4148;  // "HAZD"
  enum class Kind : uint32_t {
    kSecret = 1,  ///< Made by a daemon; the token is a secret that only it can have drawn.
    kNamed = 2,   ///< Made from NCCL_COMM_ID; the token is a digest of that text.
    kDoor = 3,    ///< Leads to a process that others may reach (OpenDoorRequest), as a secret does.
  };
  static constexpr size_t kReservedBytes = 88;

  uint32_t magic = kMagic;
  Kind kind = Kind::kSecret;
  std::array<uint8_t, 32> token{};
  /// kSecret and kDoor: the address of the daemon that made it, sealed for other daemons; zeros
  /// when it is in no cluster. kNamed: as much of the text as fits, ended by zeros.
  std::array<uint8_t, kReservedBytes> reserved{};

  auto operator<=>(const UniqueId&) const = default;
};
static_assert(sizeof(UniqueId) == 128);

/// Returns a fresh id with 256 random bits from the kernel.
Result<UniqueId> MakeSecretId();

/// Returns the id that every process computes from the same text, "host:port" as in NCCL.
UniqueId MakeNamedId(std::string_view text);

/// Returns the text that a named id was made from; "" if it was longer than fits.
std::string NameOfId(const UniqueId& id);

/// Returns a number that stands for the id in logs. It reveals at most 64 bits of a secret id's
/// 256.
uint64_t DigestOfId(const UniqueId& id);

/// Returns ok if NCCL_COMM_ID may be `text`: <ipv4>:<port>, [<ipv6>]:<port> or <hostname>:<port>.
Status CheckNamedId(std::string_view text);

/// Returns ok if this library could have made the bytes, as the id of a communicator.
Status CheckUniqueId(const UniqueId& id);
/// Returns ok if this library could have made the bytes, as the address of a process's door.
Status CheckDoor(const UniqueId& door);

}  // namespace harmonaize
