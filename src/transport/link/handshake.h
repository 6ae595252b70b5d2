#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/version_range.h"
#include "src/transport/cluster_key.h"

namespace harmonaize::transport {

/// Number drawn by each daemon at its start, so that a restarted one differs from its predecessor.
using InstanceId = std::array<std::byte, 16>;

/// Returns the first bytes of an instance, such as "3f9a0c11", enough for a log.
std::string ShortName(const InstanceId& instance);

/// Purpose of a connection.
enum class Purpose : uint8_t {
  kControl = 1,  ///< The one link that two daemons talk over.
  kRail = 2,     ///< Carries messages of one rail of an admitted link.
  kMove = 3,     ///< Continues a stream of a link that is up (StreamMoves).
};

/// The latest version of the protocol between daemons: greetings, frames, rails and the daemon's
/// messages. It grows by one with a release that adds to any of them.
inline constexpr uint32_t kProtocolVersion = 9;
/// The oldest version that this release speaks, of which the release before this one has the
/// latest.
inline constexpr uint32_t kOldestProtocolVersion = 6;
/// The versions that this release speaks.
inline constexpr VersionRange kClusterVersions = {kOldestProtocolVersion, kProtocolVersion};

/// Opens every connection, from both sides, and is what the proofs cover. 128 bytes on the wire, of
/// one layout in all versions.
struct Greeting {
  /// The initiator's oldest version; the acceptor answers with the one that the connection has,
  /// the latest of both.
  uint32_t version = kOldestProtocolVersion;
  /// The versions that the sender speaks. One that does not say speaks `version` alone.
  VersionRange versions = kClusterVersions;
  Purpose purpose = Purpose::kControl;
  uint8_t initiator_rail = 0;  ///< kRail, kMove: the initiator's rail.
  uint8_t acceptor_rail = 0;   ///< kRail, kMove: the acceptor's rail.
  /// kRail: number of the initiator's try. kMove: the rail's connection, or kControlStream.
  uint8_t connection = 0;
  uint64_t link = 0;  ///< The number that the initiator gave the link.
  InstanceId instance{};
  std::array<std::byte, 32> nonce{};
};

inline constexpr size_t kGreetingBytes = 128;

std::array<std::byte, kGreetingBytes> EncodeGreeting(const Greeting& greeting);

/// Errors: kRemoteError, with the reason, for bytes that are no greeting. The versions may be any.
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
/// Both nonces are part of both proofs, so no recorded proof serves again. The labels keep one
/// side's proof from serving as the other's. The acceptor, to which anybody may connect, shows its
/// proof only to a peer that has given one. An acceptor without a version in common with the
/// initiator still greets, so that both can say why, and goes no further. The proofs cover what
/// both greetings say of versions, so nobody between the two makes them take an older one. The
/// class knows no sockets: bytes in, bytes out.
class Handshake {
 public:
  enum class Role { kInitiator, kAcceptor };

  /// Draws the nonce of `ours`. `key` must outlive the handshake.
  Handshake(Role role, const ClusterKey* key, const Greeting& ours);

  /// Removes and returns the bytes to send now.
  std::vector<std::byte> TakeOutput() { return std::move(output_); }

  /// Returns the most bytes to read next: never more than the handshake needs, 0 when it has ended.
  size_t Wanted() const;

  /// Takes up to Wanted() bytes. Errors: kRemoteError when the other side does not belong to the
  /// cluster, kInvalidUsage when it speaks other versions; the connection is then to be closed,
  /// once the output is sent.
  Status Consume(std::span<const std::byte> bytes);

  bool done() const { return stage_ == Stage::kDone; }
  /// Returns whether the other side's proof is what comes next.
  bool awaits_proof() const { return stage_ == Stage::kProof; }
  Role role() const { return role_; }
  const Greeting& ours() const { return ours_; }
  /// Returns the other side's greeting, which is not to be trusted before done().
  const Greeting& theirs() const { return theirs_; }

 private:
  enum class Stage { kGreeting, kProof, kDone, kFailed };

  Status Fail(Status status);
  Status OnGreeting();
  Status SettleVersion();
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
