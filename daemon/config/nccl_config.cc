#include "daemon/config/nccl_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "daemon/config/nccl_names.h"
#include "src/base/toml_text.h"

namespace harmonaize::daemon {
namespace {

constexpr std::string_view kTable = "nccl.settings.";

/// Returns all names that the file may set.
std::set<std::string> NamesFor(TomlReader& reader, const NcclConfig& config) {
  std::set<std::string> names(KnownNcclNames().begin(), KnownNcclNames().end());
  for (const std::string& name : config.more_names) {
    const Status possible = CheckNcclSetting({name, "1"});
    if (possible.ok()) {
      names.insert(name);
    } else {
      reader.Reject("nccl.more_names", fmt::format("'{}': {}", name, possible.message()));
    }
  }
  return names;
}

/// Refuses names that are not for providers, with the reason.
void RejectExcluded(TomlReader& reader) {
  for (const std::string_view name : ExcludedNcclNames()) {
    const std::string key = fmt::format("{}{}", kTable, name);
    if (!reader.Has(key)) continue;
    reader.Know(key);
    reader.Reject(key,
                  fmt::format("'{}' is not for providers: it {}", key, WhyNotForProviders(name)));
  }
}

}  // namespace

void ReadNccl(TomlReader& reader, NcclConfig* config) {
  reader.StringList("nccl.more_names", &config->more_names);
  RejectExcluded(reader);
  for (const std::string& name : NamesFor(reader, *config)) {
    const std::string key = fmt::format("{}{}", kTable, name);
    NcclSetting setting{name, ""};
    reader.String(key, &setting.value);
    if (!reader.Has(key)) continue;
    const Status checked = CheckNcclSetting(setting);
    if (!checked.ok()) reader.Reject(key, fmt::format("'{}': {}", key, checked.message()));
    config->settings.push_back(std::move(setting));
  }
  if (config->settings.size() > kMostNcclSettings ||
      EncodeNcclSettings(config->settings).size() > kMostNcclSettingsBytes) {
    reader.Reject("nccl.settings", fmt::format("'nccl.settings' may have {} names, and {} bytes",
                                               kMostNcclSettings, kMostNcclSettingsBytes));
  }
}

std::string NcclTemplate(const NcclConfig& config) {
  std::vector<std::string> more;
  for (const std::string& name : config.more_names) more.push_back(TomlText(name));
  std::string text = fmt::format(
      "[nccl]                          # for stock NCCL, by its env plugin (docs/nccl-env.md)\n"
      "more_names = [{}]                 # of NCCL's settings, which this release does not know\n\n"
      "[nccl.settings]                 # of tenants that have not set them; read anew on SIGHUP\n",
      fmt::join(more, ", "));
  for (const NcclSetting& setting : config.settings) {
    text += fmt::format("{} = {}\n", setting.name, TomlText(setting.value));
  }
  if (config.settings.empty()) text += "# NCCL_SOCKET_IFNAME = \"eth0\"\n";
  return text;
}

void NcclSettingsInForce::Set(const NcclConfig& config) {
  auto text = std::make_shared<const std::string>(EncodeNcclSettings(config.settings));
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
}

}  // namespace harmonaize::daemon
