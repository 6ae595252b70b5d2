#include "daemon/probing/probe_hello.h"

#include <algorithm>
#include <cstring>

#include "src/base/random.h"
#include "src/transport/cluster_key.h"

namespace harmonaize::daemon {
namespace {

// Writes the least significant byte first, whatever the hosts' order is.
void PutNumber(uint64_t number, std::span<std::byte> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(number >> (8 * i));
}

uint64_t GetNumber(std::span<const std::byte> bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    number |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  }
  return number;
}

constexpr size_t kTokenBytes = std::tuple_size_v<ProbeToken>;

}  // namespace

Result<ProbeToken> DrawProbeToken() {
  ProbeToken token;
  HZ_RETURN_IF_ERROR(FillRandom(std::as_writable_bytes(std::span(token))));
  return token;
}

std::optional<ProbeToken> ProbeTokenFrom(const std::vector<uint8_t>& bytes) {
  ProbeToken token;
  if (bytes.size() != token.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), token.begin());
  return token;
}

std::array<std::byte, kProbeHelloBytes> EncodeProbeHello(const ProbeHello& hello) {
  std::array<std::byte, kProbeHelloBytes> bytes{};
  std::memcpy(bytes.data(), hello.token.data(), kTokenBytes);
  PutNumber(hello.set, std::span(bytes).subspan(kTokenBytes, 8));
  PutNumber(hello.transfer, std::span(bytes).subspan(kTokenBytes + 8, 4));
  return bytes;
}

std::optional<ProbeHello> DecodeProbeHello(std::span<const std::byte, kProbeHelloBytes> bytes,
                                           const ProbeToken& expected) {
  ProbeHello hello;
  std::memcpy(hello.token.data(), bytes.data(), kTokenBytes);
  unsigned difference = 0;
  for (size_t i = 0; i < kTokenBytes; ++i) difference |= hello.token[i] ^ expected[i];
  if (difference != 0) return std::nullopt;
  hello.set = GetNumber(bytes.subspan(kTokenBytes, 8));
  hello.transfer = static_cast<uint32_t>(GetNumber(bytes.subspan(kTokenBytes + 8, 4)));
  return hello;
}

}  // namespace harmonaize::daemon
