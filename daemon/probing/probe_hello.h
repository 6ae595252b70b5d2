#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Who connects to a probe's listener shows it: it came over an authenticated control link, and is
/// of no use after the probe.
using ProbeToken = std::array<uint8_t, 16>;

/// Of the kernel's random bytes. Errors: kSystemError.
Result<ProbeToken> DrawProbeToken();
/// What a message brought; none for any other length.
std::optional<ProbeToken> ProbeTokenFrom(const std::vector<uint8_t>& bytes);

/// What a connection is for. The first that is sent over it; answered by kProbeWelcome.
struct ProbeHello {
  ProbeToken token{};
  uint64_t set = 0;  ///< The step of ProbeConnectMessage; 0: all that comes is sent back.
  uint32_t transfer = 0;
};

inline constexpr size_t kProbeHelloBytes = 28;
inline constexpr char kProbeWelcome = 'w';
/// Of a message that goes to and fro.
inline constexpr size_t kProbePingBytes = 64;

std::array<std::byte, kProbeHelloBytes> EncodeProbeHello(const ProbeHello& hello);
/// None if the token is not `expected`, which takes as long for any wrong one.
std::optional<ProbeHello> DecodeProbeHello(std::span<const std::byte, kProbeHelloBytes> bytes,
                                           const ProbeToken& expected);

}  // namespace harmonaize::daemon
