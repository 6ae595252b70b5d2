#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/toml_reader.h"
#include "src/ipc/nccl_settings.h"

namespace harmonaize::daemon {

/// What the provider says to stock NCCL: [nccl] of the configuration (docs/nccl-env.md).
struct NcclConfig {
  /// In the order of their names.
  std::vector<NcclSetting> settings = {};
  /// Names that this release does not know, and that may be set all the same.
  std::vector<std::string> more_names = {};
};

/// Reads [nccl].
void ReadNccl(TomlReader& reader, NcclConfig* config);

/// Returns [nccl] as TOML.
std::string NcclTemplate(const NcclConfig& config);

/// The settings in force, as the text that clients get. They change when the configuration is read
/// anew. Thread: any.
class NcclSettingsInForce {
 public:
  explicit NcclSettingsInForce(const NcclConfig& config) { Set(config); }

  void Set(const NcclConfig& config);
  std::shared_ptr<const std::string> text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const std::string> text_;  // guarded by mutex_
};

}  // namespace harmonaize::daemon
