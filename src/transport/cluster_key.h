#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::transport {

/// Proof that its sender has the key: HMAC-SHA-256 (RFC 2104, FIPS 180-4).
using Proof = std::array<std::byte, 32>;

/// The secret that all daemons of a cluster share. It never leaves the process, and its memory is
/// cleared on destruction.
class ClusterKey {
 public:
  /// Fewest bytes of a key. A file with fewer is refused, because an eavesdropper can try guesses
  /// against a recorded proof.
  static constexpr size_t kMinBytes = 32;
  /// Most bytes of a key.
  static constexpr size_t kMaxBytes = 4096;

  /// Makes an empty key: its proofs show nothing, and match only those of other empty keys.
  ClusterKey() = default;
  ~ClusterKey();
  ClusterKey(const ClusterKey&) = default;
  ClusterKey& operator=(const ClusterKey&) = default;
  ClusterKey(ClusterKey&&) = default;
  ClusterKey& operator=(ClusterKey&&) = default;

  /// Errors: kInvalidArgument for fewer than kMinBytes or more than kMaxBytes.
  static Result<ClusterKey> FromBytes(std::span<const std::byte> bytes);

  /// Reads the key from a file, without white space at its end. Errors: kInvalidArgument, with the
  /// way out, when the file cannot be read, when others than its owner and group may read it, or
  /// when it is too short.
  static Result<ClusterKey> FromFile(const std::string& path);

  bool present() const { return !bytes_.empty(); }

  /// Returns the proof over `label` and `transcript`. Requires: the label has no zero byte.
  Proof Sign(std::string_view label, std::span<const std::byte> transcript) const;

  /// Returns whether `proof` is what Sign gives, in a time that is the same for all wrong proofs.
  bool Verify(const Proof& proof, std::string_view label,
              std::span<const std::byte> transcript) const;

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace harmonaize::transport
