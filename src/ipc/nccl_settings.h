#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace harmonaize {

// What a provider sets for stock NCCL: names and values, as environment variables have them. The
// daemon's configuration states them (docs/nccl-env.md), and NCCL's env plugin asks for them.

/// One setting, such as NCCL_SOCKET_IFNAME = "eth0".
struct NcclSetting {
  std::string name;
  std::string value;
  auto operator<=>(const NcclSetting&) const = default;
};

/// Most settings of a provider. NCCL has some 250 names, of which a provider sets a handful.
inline constexpr size_t kMostNcclSettings = 128;
/// Longest name, in bytes; NCCL's longest has 57.
inline constexpr size_t kMostNcclNameBytes = 127;
/// Longest value, in bytes: what NCCL keeps of a value in its configuration files.
inline constexpr size_t kMostNcclValueBytes = 1023;
/// Size of all settings as text, in bytes, so that they fit into one message of the control socket.
inline constexpr size_t kMostNcclSettingsBytes = 32 * 1024;

/// Returns whether NCCL could have a setting of this name: NCCL_ and then capital letters, digits
/// and underscores.
bool IsNcclSettingName(std::string_view name);

/// Returns why a provider may not set this, as the end of a sentence whose subject is the name; ""
/// where it may. A daemon decides how a tenant's data travels. It need not run as root, so it must
/// not choose code that tenants load, or files that they write.
std::string_view WhyNotForProviders(std::string_view name);

/// Returns an error unless a provider may set this. Errors: kInvalidArgument, for the name's or the
/// value's form, or with WhyNotForProviders.
Status CheckNcclSetting(const NcclSetting& setting);

/// Returns the settings as lines, NAME=VALUE. Requires: CheckNcclSetting for each.
std::string EncodeNcclSettings(std::span<const NcclSetting> settings);

/// Reads such lines. Settings that CheckNcclSetting refuses are left out, and so is the second one
/// of a name: a later daemon may know more names than this code. Errors: kInvalidArgument, where
/// the text exceeds the bounds above or has a line of another form.
Result<std::vector<NcclSetting>> DecodeNcclSettings(std::string_view text);

}  // namespace harmonaize
