#pragma once

#include <array>
#include <compare>
#include <cstdint>
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

  uint32_t magic = kMagic;
  Kind kind = Kind::kSecret;
  std::array<uint8_t, 32> token{};
  std::array<uint8_t, 88> reserved{};

  auto operator<=>(const UniqueId&) const = default;
};
static_assert(sizeof(UniqueId) == 128);

/// A fresh id with 256 random bits from the kernel.
Result<UniqueId> MakeSecretId();

/// The id that every process computes from the same text.
UniqueId MakeNamedId(std::string_view text);

/// Whether the bytes could have come from us.
Status CheckUniqueId(const UniqueId& id);

}  // namespace harmonaize
