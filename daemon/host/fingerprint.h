#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace harmonaize::daemon {

/// Identifies a host, its kernel and the daemon's version: a measurement holds for as long as this
/// stays the same.
struct Fingerprint {
  std::string processor;  ///< The model's name, as the kernel tells it.
  uint64_t processors = 0;
  uint64_t cache_bytes = 0;
  uint64_t last_level_bytes = 0;
  /// In steps of a gibibyte: what the kernel keeps for itself varies from start to start.
  uint64_t memory_gib = 0;
  std::string kernel;   ///< The kernel's release.
  std::string version;  ///< Version of the daemon, and of its measurements.

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

Fingerprint FingerprintOfHost();

nlohmann::json ToJson(const Fingerprint& fingerprint);
/// Reads a fingerprint. Values that are missing in the document, or of another type, are empty: no
/// host is like that.
Fingerprint FingerprintFrom(const nlohmann::json& document);

}  // namespace harmonaize::daemon
