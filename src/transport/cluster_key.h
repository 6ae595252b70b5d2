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

/// What shows that somebody has the key: HMAC-SHA-256 (RFC 2104, FIPS 180-4).
using Proof = std::array<std::byte, 32>;

/// The secret that all daemons of a cluster share. It never leaves the process; its memory is
/// cleared when it goes.
class ClusterKey {
 public:
  /// Who has a file with less is told to make one with more: a proof can be tried against guesses
  /// by whoever once listened on the wire.
  static constexpr size_t kMinBytes = 32;
  static constexpr size_t kMaxBytes = 4096;

  /// No key: proofs show nothing, and match only those of others without a key.
  ClusterKey() = default;
  ~ClusterKey();
  ClusterKey(const ClusterKey&) = default;
  ClusterKey& operator=(const ClusterKey&) = default;
  ClusterKey(ClusterKey&&) = default;
  ClusterKey& operator=(ClusterKey&&) = default;

  /// Errors: kInvalidArgument for fewer than kMinBytes or more than kMaxBytes.
  static Result<ClusterKey> FromBytes(std::span<const std::byte> bytes);

  /// The content of a file, without white space at its end.
  /// Errors: kInvalidArgument, with the way out, when it cannot be read, when others than its owner
  /// and group may read it, or when it is too short.
  static Result<ClusterKey> FromFile(const std::string& path);

  bool present() const { return !bytes_.empty(); }

  /// The proof over `label` and `transcript`. A label must not hold a zero byte.
  Proof Sign(std::string_view label, std::span<const std::byte> transcript) const;

  /// Whether `proof` is what Sign gives. Takes as long for any wrong proof.
  bool Verify(const Proof& proof, std::string_view label,
              std::span<const std::byte> transcript) const;

 private:
  std::vector<std::byte> bytes_;
};

/// Fills `out` with random bytes of the kernel. Errors: kSystemError.
Status FillRandom(std::span<std::byte> out);

}  // namespace harmonaize::transport
