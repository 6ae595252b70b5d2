// What a stranger can say to the listener of a probe, and the addresses that an operator names.

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/probing/probe_hello.h"
#include "daemon/probing/probe_service.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using namespace daemon;

void Run(Input input) {
  const auto bytes = input.Take<std::array<std::byte, kProbeHelloBytes>>();
  const auto token = input.Take<ProbeToken>();
  const std::optional<ProbeHello> hello = DecodeProbeHello(bytes, token);
  const bool knows = std::memcmp(bytes.data(), token.data(), token.size()) == 0;
  Require(hello.has_value() == knows, "the token alone lets somebody in");
  if (hello.has_value()) {
    Require(hello->token == token, "the token that was expected");
    Require(EncodeProbeHello(*hello) == bytes, "a hello is the same when it is encoded again");
  }

  const std::span<const std::byte> rest = input.TakeRest();
  const auto* first = reinterpret_cast<const uint8_t*>(rest.data());
  const std::optional<ProbeToken> brought = ProbeTokenFrom({first, first + rest.size()});
  Require(brought.has_value() == (rest.size() == sizeof(ProbeToken)), "a token has its length");

  const auto addresses = ParseProbeAddresses(TextOf(rest));
  if (!addresses.ok()) return;
  std::string lines;
  for (const transport::NetworkAddress& address : *addresses) lines += address.ToString() + "\n";
  const auto again = ParseProbeAddresses(lines);
  RequireOk(again.status(), "addresses can be read as they are written");
  Require(again->size() == addresses->size(), "and are as many");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
