#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/transport/cluster_key.h"

namespace harmonaize::transport {

/// Drawn anew by each daemon at its start, so that one that came back is told from its predecessor.
using InstanceId = std::array<std::byte, 16>;

/// "3f9a0c11": the first bytes of an instance, enough for a log.
std::string ShortName(const InstanceId& instance);

/// What a connection is for.
enum class Purpose : uint8_t {
  kControl = 1,  ///< The one link that two daemons talk over.
  kRail = 2,     ///< Carries messages of one rail of an admitted link.
  kMove = 3,     ///< A stream of a link that is up goes on over it (StreamMoves).
};

/// Opens every connection, from both sides; what the proofs are about. 128 bytes on the wire.
struct Greeting {
  Purpose purpose = Purpose::kControl;
  uint8_t initiator_rail = 0;  ///< kRail, kMove: which of the initiator's rails.
  uint8_t acceptor_rail = 0;   ///< kRail, kMove: which of the acceptor's.
  /// kRail: which of the initiator's tries this is. kMove: which of the rail's, or kControlStream.
  uint8_t connection = 0;
  uint64_t link = 0;  ///< The number that the initiator gave the link.
  InstanceId instance{};
  std::array<std::byte, 32> nonce{};
};

inline constexpr uint32_t kProtocolVersion = 5;
inline constexpr size_t kGreetingBytes = 128;

std::array<std::byte, kGreetingBytes> EncodeGreeting(const Greeting& greeting);

/// Errors: kRemoteError, with what is wrong, for bytes that are no greeting of this version.
Result<Greeting> DecodeGreeting(std::span<const std::byte, kGreetingBytes> bytes);

/// Proves the cluster key in both directions before anything else is said:
///
///     initiator                         acceptor
///     greeting with a nonce     ->
///                               <-      greeting with a nonce
///     HMAC("initiator", both)   ->      verifies, or hangs up without a word
///                               <-      HMAC("acceptor", both)
///     verifies, or hangs up
///
/// Both nonces stand in both proofs, so no recorded proof serves again; the labels keep one side's
/// proof from serving as the other's; and the acceptor, whom anybody may connect to, shows a proof
/// only to who has given one. Knows nothing of sockets: bytes in, bytes out.
class Handshake {
 public:
  enum class Role { kInitiator, kAcceptor };

  /// `ours` without a nonce: it is drawn here. `key` must outlive the handshake.
  Handshake(Role role, const ClusterKey* key, const Greeting& ours);

  /// What to send now; the caller takes it away.
  std::vector<std::byte> TakeOutput() { return std::move(output_); }

  /// The most bytes to read next: never more than the handshake needs. 0 when it has ended.
  size_t Wanted() const;

  /// Takes up to Wanted() bytes. kRemoteError when the other side is none of ours; then the
  /// connection is to be closed.
  Status Consume(std::span<const std::byte> bytes);

  bool done() const { return stage_ == Stage::kDone; }
  /// Whether the next thing to come is the other side's proof.
  bool awaits_proof() const { return stage_ == Stage::kProof; }
  Role role() const { return role_; }
  const Greeting& ours() const { return ours_; }
  /// Not to be believed before done().
  const Greeting& theirs() const { return theirs_; }

 private:
  enum class Stage { kGreeting, kProof, kDone, kFailed };

  Status Fail(Status status);
  Status OnGreeting();
  Status OnProof();
  void AppendProof(Role of);
  std::span<const std::byte> Transcript() const { return transcript_; }

  Role role_;
  const ClusterKey* key_;
  Greeting ours_;
  Greeting theirs_;
  Stage stage_ = Stage::kGreeting;
  std::vector<std::byte> output_;
  std::vector<std::byte> input_;
  std::array<std::byte, 2 * kGreetingBytes> transcript_{};  // the initiator's, then the acceptor's
};

}  // namespace harmonaize::transport
