#include "src/transport/link/handshake.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/random.h"

namespace harmonaize::transport {
namespace {

constexpr char kMagic[8] = {'H', 'A', 'Z', 'D', 'W', 'I', 'R', 'E'};
// Marks the byte order. Frames hold numbers as the machine does, so both ends must use the same.
constexpr uint32_t kByteOrderMark = 0x01020304;

/// A greeting as it is on the wire. Up to version 6 the last 48 bytes were zero.
struct GreetingLayout {
  char magic[8];
  uint32_t version;
  uint32_t byte_order;
  uint8_t purpose;
  uint8_t initiator_rail;
  uint8_t acceptor_rail;
  uint8_t connection;
  uint8_t zero[4];
  uint64_t link;
  std::byte instance[16];
  std::byte nonce[32];
  uint32_t oldest;
  uint32_t latest;
  uint8_t reserved[40];
};
static_assert(sizeof(GreetingLayout) == kGreetingBytes);

const char* Label(Handshake::Role role) {
  return role == Handshake::Role::kInitiator ? "harmonaize transport 1, initiator"
                                             : "harmonaize transport 1, acceptor";
}

}  // namespace

std::string ShortName(const InstanceId& instance) {
  return fmt::format("{:02x}{:02x}{:02x}{:02x}", static_cast<unsigned>(instance[0]),
                     static_cast<unsigned>(instance[1]), static_cast<unsigned>(instance[2]),
                     static_cast<unsigned>(instance[3]));
}

std::array<std::byte, kGreetingBytes> EncodeGreeting(const Greeting& greeting) {
  GreetingLayout layout{};
  std::memcpy(layout.magic, kMagic, sizeof kMagic);
  layout.version = greeting.version;
  layout.oldest = greeting.versions.oldest;
  layout.latest = greeting.versions.latest;
  layout.byte_order = kByteOrderMark;
  layout.purpose = static_cast<uint8_t>(greeting.purpose);
  layout.initiator_rail = greeting.initiator_rail;
  layout.acceptor_rail = greeting.acceptor_rail;
  layout.connection = greeting.connection;
  layout.link = greeting.link;
  std::ranges::copy(greeting.instance, layout.instance);
  std::ranges::copy(greeting.nonce, layout.nonce);
  return std::bit_cast<std::array<std::byte, kGreetingBytes>>(layout);
}

Result<Greeting> DecodeGreeting(std::span<const std::byte, kGreetingBytes> bytes) {
  GreetingLayout layout;
  std::memcpy(&layout, bytes.data(), sizeof layout);
  if (std::memcmp(layout.magic, kMagic, sizeof kMagic) != 0) {
    return RemoteError("it does not speak Harmonaize's protocol");
  }
  if (layout.byte_order != kByteOrderMark) {
    return RemoteError("its processor has another byte order");
  }
  const auto purpose = static_cast<Purpose>(layout.purpose);
  if (purpose < Purpose::kControl || purpose > Purpose::kMove) {
    return RemoteError("its greeting has an unknown purpose ({})", layout.purpose);
  }
  Greeting greeting;
  greeting.version = layout.version;
  greeting.versions = {layout.oldest, layout.latest};
  if (layout.latest == 0) greeting.versions = {layout.version, layout.version};
  greeting.purpose = purpose;
  greeting.initiator_rail = layout.initiator_rail;
  greeting.acceptor_rail = layout.acceptor_rail;
  greeting.connection = layout.connection;
  greeting.link = layout.link;
  std::ranges::copy(layout.instance, greeting.instance.begin());
  std::ranges::copy(layout.nonce, greeting.nonce.begin());
  return greeting;
}

Handshake::Handshake(Role role, const ClusterKey* key, const Greeting& ours)
    : role_(role), key_(key), ours_(ours) {
  // Without randomness there is no fresh nonce, so the handshake fails.
  if (!FillRandom(ours_.nonce).ok()) {
    stage_ = Stage::kFailed;
    return;
  }
  if (role_ == Role::kInitiator) {
    ours_.version = ours_.versions.oldest;
    const auto bytes = EncodeGreeting(ours_);
    std::ranges::copy(bytes, transcript_.begin());
    output_.assign(bytes.begin(), bytes.end());
  }
}

size_t Handshake::Wanted() const {
  switch (stage_) {
    case Stage::kGreeting: return kGreetingBytes - input_.size();
    case Stage::kProof: return sizeof(Proof) - input_.size();
    default: return 0;
  }
}

Status Handshake::Fail(Status status) {
  stage_ = Stage::kFailed;
  output_.clear();
  return status;
}

Status Handshake::Consume(std::span<const std::byte> bytes) {
  if (stage_ == Stage::kFailed || bytes.size() > Wanted()) {
    return Fail(InternalError("the handshake was given more than it wanted"));
  }
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  if (stage_ == Stage::kGreeting &&
      std::memcmp(input_.data(), kMagic, std::min(input_.size(), sizeof kMagic)) != 0) {
    return Fail(RemoteError("it does not speak Harmonaize's protocol"));
  }
  if (Wanted() > 0) return Status::Ok();
  return stage_ == Stage::kGreeting ? OnGreeting() : OnProof();
}

Status Handshake::OnGreeting() {
  Result<Greeting> greeting =
      DecodeGreeting(std::span<const std::byte, kGreetingBytes>(input_.data(), kGreetingBytes));
  if (!greeting.ok()) return Fail(greeting.status());
  theirs_ = *greeting;
  // The initiator reports this: it asked for the wrong address.
  if (role_ == Role::kInitiator && theirs_.instance == ours_.instance) {
    return Fail(RemoteError("it is this daemon itself; give each host its own address"));
  }
  const size_t place = role_ == Role::kInitiator ? kGreetingBytes : 0;
  std::ranges::copy(input_, transcript_.begin() + static_cast<ptrdiff_t>(place));
  input_.clear();
  const Status settled = SettleVersion();
  if (!settled.ok() && role_ == Role::kInitiator) return Fail(settled);
  stage_ = Stage::kProof;
  if (role_ == Role::kInitiator) {
    AppendProof(Role::kInitiator);
    return Status::Ok();
  }
  // The acceptor copies the purpose, so both sides know what this connection is for.
  ours_.purpose = theirs_.purpose;
  ours_.initiator_rail = theirs_.initiator_rail;
  ours_.acceptor_rail = theirs_.acceptor_rail;
  ours_.connection = theirs_.connection;
  ours_.link = theirs_.link;
  const auto bytes = EncodeGreeting(ours_);
  std::ranges::copy(bytes, transcript_.begin() + kGreetingBytes);
  output_.insert(output_.end(), bytes.begin(), bytes.end());
  if (!settled.ok()) stage_ = Stage::kFailed;
  return settled;
}

// The acceptor chooses, and the initiator takes what it has chosen.
Status Handshake::SettleVersion() {
  const bool initiator = role_ == Role::kInitiator;
  const VersionRange theirs =
      initiator ? VersionRange{theirs_.version, theirs_.version} : theirs_.versions;
  const std::optional<uint32_t> version = LatestOfBoth(ours_.versions, theirs);
  ours_.version = version.value_or(ours_.versions.latest);
  if (version.has_value()) return Status::Ok();
  return InvalidUsage(
      "it speaks {} of the protocol between daemons, and this daemon {}: update {}",
      TextOf(theirs_.versions), TextOf(ours_.versions),
      theirs_.versions.latest < ours_.versions.oldest ? "the other daemon" : "this daemon");
}

Status Handshake::OnProof() {
  Proof proof;
  std::memcpy(proof.data(), input_.data(), proof.size());
  input_.clear();
  const Role other = role_ == Role::kInitiator ? Role::kAcceptor : Role::kInitiator;
  if (!key_->Verify(proof, Label(other), Transcript())) {
    return Fail(RemoteError("it did not prove this cluster's key: it has another one, or none"));
  }
  if (role_ == Role::kAcceptor) AppendProof(Role::kAcceptor);
  stage_ = Stage::kDone;
  return Status::Ok();
}

void Handshake::AppendProof(Role of) {
  const Proof proof = key_->Sign(Label(of), Transcript());
  output_.insert(output_.end(), proof.begin(), proof.end());
}

}  // namespace harmonaize::transport
