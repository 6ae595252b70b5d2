#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "src/base/status.h"
#include "src/ipc/unique_id.h"
#include "src/transport/address.h"
#include "src/transport/cluster_key.h"

namespace harmonaize::daemon {

/// Puts the address of a daemon into the unique ids that it makes, so that other daemons of the
/// cluster find it. Programs without the cluster's key can neither read nor change it. The address
/// is encrypted with AES-256-GCM (NIST SP 800-38D) under a key that is derived from the cluster's.
/// The id's random token is the nonce.
class AddressSeal {
 public:
  explicit AddressSeal(const transport::ClusterKey& cluster_key);

  /// Puts the address into the id. Returns kSystemError if libcrypto refuses.
  Status Seal(const transport::NetworkAddress& address, UniqueId* id) const;

  /// Returns the address in an id; nullopt for an id without one. Returns kInvalidArgument for an
  /// id that was sealed under another key, or was changed.
  Result<std::optional<transport::NetworkAddress>> Open(const UniqueId& id) const;

 private:
  std::array<std::byte, 32> key_;
};

}  // namespace harmonaize::daemon
