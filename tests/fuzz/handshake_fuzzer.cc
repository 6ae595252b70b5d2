// What a stranger can say before it has proved the cluster key.

#include <cstdint>
#include <vector>

#include "src/transport/link/handshake.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using namespace transport;

const ClusterKey& Key() {
  static const std::array<std::byte, ClusterKey::kMinBytes> kBytes = {std::byte{9}};
  static const ClusterKey kKey = *ClusterKey::FromBytes(kBytes);
  return kKey;
}

Greeting GreetingOf(uint8_t instance) {
  Greeting greeting;
  greeting.instance.fill(std::byte{instance});
  return greeting;
}

void DecodeOne(std::span<const std::byte> bytes) {
  if (bytes.size() < kGreetingBytes) return;
  const Result<Greeting> greeting = DecodeGreeting(bytes.first<kGreetingBytes>());
  if (!greeting.ok()) return;
  Require(greeting->purpose >= Purpose::kControl && greeting->purpose <= Purpose::kMove,
          "a purpose that is one");
  const auto encoded = EncodeGreeting(*greeting);
  const Result<Greeting> again = DecodeGreeting(encoded);
  RequireOk(again.status(), "what is encoded can be decoded");
  Require(EncodeGreeting(*again) == encoded, "a greeting is the same when it is encoded again");
}

/// Any bytes, in any portions.
void Talk(Handshake::Role role, size_t portion, std::span<const std::byte> bytes) {
  Handshake handshake(role, &Key(), GreetingOf(1));
  size_t said = handshake.TakeOutput().size();
  while (handshake.Wanted() > 0 && !bytes.empty()) {
    Require(handshake.Wanted() <= kGreetingBytes, "never more than the handshake needs");
    const size_t taken = std::min({portion + 1, handshake.Wanted(), bytes.size()});
    if (!handshake.Consume(bytes.first(taken)).ok()) {
      Require(handshake.Wanted() == 0, "nothing is read of what is none of ours");
      break;
    }
    bytes = bytes.subspan(taken);
    said += handshake.TakeOutput().size();
  }
  Require(!handshake.done(), "who lacks the key proves nothing");
  const size_t most = kGreetingBytes + (role == Handshake::Role::kInitiator ? sizeof(Proof) : 0);
  Require(said <= most, "an acceptor shows no proof to who has given none");
}

/// Two daemons with the key, and somebody between them who changes a byte now and then.
void TalkThrough(Input input) {
  Handshake initiator(Handshake::Role::kInitiator, &Key(), GreetingOf(1));
  Handshake acceptor(Handshake::Role::kAcceptor, &Key(), GreetingOf(2));
  Handshake* from = &initiator;
  Handshake* to = &acceptor;
  bool changed = false;
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<std::byte> said = from->TakeOutput();
    const auto place = input.Take<uint8_t>();
    const auto bits = input.Take<std::byte>();
    if (!said.empty()) {
      said[place % said.size()] ^= bits;
      changed |= bits != std::byte{0};
    }
    if (!to->Consume(said).ok()) break;
    std::swap(from, to);
  }
  Require((initiator.done() && acceptor.done()) == !changed,
          "both are done if nobody has changed anything");
}

void Run(Input input) {
  const size_t portion = input.TakeUpTo(255);
  TalkThrough(input);
  const std::span<const std::byte> bytes = input.TakeRest();
  DecodeOne(bytes);
  Talk(Handshake::Role::kAcceptor, portion, bytes);
  Talk(Handshake::Role::kInitiator, portion, bytes);
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
