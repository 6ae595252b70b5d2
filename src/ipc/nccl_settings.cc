#include "src/ipc/nccl_settings.h"

#include <algorithm>
#include <array>

namespace harmonaize {
namespace {

enum class Part { kWhole, kBeginning, kAnywhere, kEnd };

/// What names look like that are not for providers, and why.
struct Exclusion {
  Part part;
  std::string_view text;
  std::string_view why;
};

constexpr std::string_view kCode =
    "has programs load a library, whose code would be the provider's";
constexpr std::string_view kFiles = "has programs write files, with their user's rights";
constexpr std::string_view kLog = "decides what a program writes into its log, which is the user's";
constexpr std::string_view kTooEarly = "is read before NCCL asks this plugin";
constexpr std::string_view kMeeting = "tells a job's ranks from others, or where they meet";
constexpr std::string_view kSignals = "has NCCL handle a signal of the program's";

constexpr std::array kExclusions = {
    Exclusion{Part::kWhole, "NCCL_ENV_PLUGIN", kTooEarly},
    Exclusion{Part::kWhole, "NCCL_CONF_FILE", kTooEarly},
    Exclusion{Part::kAnywhere, "PLUGIN", kCode},
    Exclusion{Part::kEnd, "_LIB", kCode},
    Exclusion{Part::kEnd, "_LIBRARY", kCode},
    Exclusion{Part::kEnd, "_PATH", kCode},
    Exclusion{Part::kAnywhere, "JIT", kCode},
    Exclusion{Part::kAnywhere, "_DUMP_SIGNAL", kSignals},
    Exclusion{Part::kAnywhere, "_DUMP", kFiles},
    Exclusion{Part::kBeginning, "NCCL_INSPECTOR", kFiles},
    Exclusion{Part::kBeginning, "NCCL_PROFILE", kFiles},
    Exclusion{Part::kBeginning, "NCCL_PARAM_", kLog},
    Exclusion{Part::kBeginning, "NCCL_DEBUG", kLog},
    Exclusion{Part::kBeginning, "NCCL_WARN", kLog},
    Exclusion{Part::kWhole, "NCCL_COMM_ID", kMeeting},
    Exclusion{Part::kWhole, "NCCL_HOSTID", kMeeting},
    Exclusion{Part::kWhole, "NCCL_SOCKET_MAGIC", kMeeting},
};

bool Matches(const Exclusion& exclusion, std::string_view name) {
  switch (exclusion.part) {
    case Part::kWhole: return name == exclusion.text;
    case Part::kBeginning: return name.starts_with(exclusion.text);
    case Part::kAnywhere: return name.find(exclusion.text) != std::string_view::npos;
    case Part::kEnd: return name.ends_with(exclusion.text);
  }
  return true;
}

bool IsPrintable(char byte) {
  return byte >= ' ' && byte <= '~';
}

}  // namespace

bool IsNcclSettingName(std::string_view name) {
  constexpr std::string_view kPrefix = "NCCL_";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return false;
  return name.size() <= kMostNcclNameBytes && std::all_of(name.begin(), name.end(), [](char one) {
           return (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9') || one == '_';
         });
}

std::string_view WhyNotForProviders(std::string_view name) {
  const auto found =
      std::find_if(kExclusions.begin(), kExclusions.end(),
                   [name](const Exclusion& exclusion) { return Matches(exclusion, name); });
  return found == kExclusions.end() ? std::string_view() : found->why;
}

Status CheckNcclSetting(const NcclSetting& setting) {
  if (!IsNcclSettingName(setting.name)) {
    return InvalidArgument(
        "it is no name of NCCL's: NCCL_ and up to {} capital letters, digits "
        "and underscores",
        kMostNcclNameBytes - 5);
  }
  const std::string_view why = WhyNotForProviders(setting.name);
  if (!why.empty()) return InvalidArgument("a provider may not set it: it {}", why);
  if (setting.value.empty() || setting.value.size() > kMostNcclValueBytes ||
      !std::all_of(setting.value.begin(), setting.value.end(), IsPrintable)) {
    return InvalidArgument("its value must have 1 to {} printable characters of ASCII",
                           kMostNcclValueBytes);
  }
  return Status::Ok();
}

std::string EncodeNcclSettings(std::span<const NcclSetting> settings) {
  std::string text;
  for (const NcclSetting& setting : settings) {
    text.append(setting.name).append("=").append(setting.value).append("\n");
  }
  return text;
}

Result<std::vector<NcclSetting>> DecodeNcclSettings(std::string_view text) {
  if (text.size() > kMostNcclSettingsBytes) {
    return InvalidArgument("settings for NCCL of {} bytes, more than {}", text.size(),
                           kMostNcclSettingsBytes);
  }
  std::vector<NcclSetting> settings;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const size_t equals = text.substr(0, end).find('=');
    if (end == std::string_view::npos || equals == std::string_view::npos) {
      return InvalidArgument("settings for NCCL in lines that are not NAME=VALUE");
    }
    NcclSetting setting{std::string(text.substr(0, equals)),
                        std::string(text.substr(equals + 1, end - equals - 1))};
    text.remove_prefix(end + 1);
    const bool is_known =
        std::any_of(settings.begin(), settings.end(),
                    [&](const NcclSetting& known) { return known.name == setting.name; });
    if (is_known || !CheckNcclSetting(setting).ok()) continue;
    if (settings.size() == kMostNcclSettings) {
      return InvalidArgument("more than {} settings for NCCL", kMostNcclSettings);
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace harmonaize
