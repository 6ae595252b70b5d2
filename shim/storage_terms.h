#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/checkpoint/store_format.h"

namespace harmonaize::shim {

/// What a job's requirements say of how its checkpoints are stored.
struct StorageTerms {
  std::optional<uint32_t> keep = {};                   ///< [checkpoint] keep.
  std::optional<checkpoint::StoreFormat> format = {};  ///< [checkpoint] format.
};

/// Asks the daemon for what it has granted a job, and returns what that says of storing. Logs where
/// the daemon does not answer, and returns terms that say nothing.
StorageTerms GrantedStorageTerms(const std::string& job);

}  // namespace harmonaize::shim
