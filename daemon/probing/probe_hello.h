#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// A secret that peers show when they connect to a probe's listener. It came over an authenticated
/// control link, and is of no use after the probe.
using ProbeToken = std::array<uint8_t, 16>;

/// Makes a token of the kernel's random bytes. Errors: kSystemError.
Result<ProbeToken> DrawProbeToken();
/// Returns the token that a message brought; nullopt if it has another length.
std::optional<ProbeToken> ProbeTokenFrom(const std::vector<uint8_t>& bytes);

/// Says what a connection is for. It is the first message over it, and answered by kProbeWelcome.
struct ProbeHello {
  ProbeToken token{};
  uint64_t set = 0;  ///< Step of the ProbeConnectMessage; 0: every message is sent back.
  uint32_t transfer = 0;
};

/// Bytes of an encoded ProbeHello: its token, set and transfer.
inline constexpr size_t kProbeHelloBytes = 28;
/// The listener's answer to a ProbeHello that it accepts.
inline constexpr char kProbeWelcome = 'w';
/// Bytes of a message that goes to and fro.
inline constexpr size_t kProbePingBytes = 64;

std::array<std::byte, kProbeHelloBytes> EncodeProbeHello(const ProbeHello& hello);
/// Returns nullopt if the token is not `expected`, which takes as long for any wrong one.
std::optional<ProbeHello> DecodeProbeHello(std::span<const std::byte, kProbeHelloBytes> bytes,
                                           const ProbeToken& expected);

}  // namespace harmonaize::daemon
