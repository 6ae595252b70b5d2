#include "plugins/nccl-env/environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/nccl-abi/logger.h"
#include "plugins/nccl-env/provider_settings.h"
#include "src/base/settings.h"

namespace harmonaize::nccl_env {
namespace {

using nccl_abi::kLogOfEnv;
using nccl_abi::Log;
using nccl_abi::LogLevel;

/// Most characters of a list in a log line: NCCL cuts lines off at about a thousand.
constexpr size_t kMostListCharacters = 700;

/// The provider's settings that the tenant allows, as one call of Begin found them.
struct Snapshot {
  std::vector<NcclSetting> settings;  ///< In the order of their names.
  const Snapshot* older = nullptr;
};

// Snapshots are never freed: a thread may read a value while another one ends NCCL. Calls of Begin
// that get the same settings share one, so that loading and unloading takes no more memory each
// time. They are pushed with release, and read with acquire: who sees one sees what it holds.
std::atomic<const Snapshot*> all_snapshots{nullptr};
std::atomic<const Snapshot*> in_force{nullptr};

/// Copies of NCCL in this process that have begun and not ended. Relaxed: it only says whether
/// in_force counts, and a thread that calls GetEnv has been told of Begin by NCCL itself.
std::atomic<int> users{0};

const Snapshot* Keep(std::vector<NcclSetting> settings) {
  const Snapshot* newest = all_snapshots.load(std::memory_order_acquire);
  for (const Snapshot* one = newest; one != nullptr; one = one->older) {
    if (one->settings == settings) return one;
  }
  auto kept = std::make_unique<Snapshot>(Snapshot{std::move(settings), newest});
  while (!all_snapshots.compare_exchange_weak(kept->older, kept.get(), std::memory_order_acq_rel,
                                              std::memory_order_acquire)) {
  }
  return kept.release();
}

std::string List(const std::vector<std::string>& words) {
  std::string text = fmt::format("{}", fmt::join(words, ", "));
  if (text.size() > kMostListCharacters) {
    text.resize(kMostListCharacters);
    text += fmt::format("... ({} in all)", words.size());
  }
  return text;
}

/// Takes out what the tenant forbids or has set itself, and says what is left in one line.
std::vector<NcclSetting> Select(std::vector<NcclSetting> settings, const Permission& permission) {
  std::vector<std::string> taken;
  std::vector<std::string> left;
  std::vector<std::string> forbidden;
  std::erase_if(settings, [&](const NcclSetting& setting) {
    if (!permission.Allows(setting.name)) {
      forbidden.push_back(setting.name);
      return true;
    }
    if (Setting(setting.name.c_str()) != nullptr) {
      left.push_back(setting.name);
      return false;
    }
    taken.push_back(fmt::format("{}={}", setting.name, setting.value));
    return false;
  });
  std::string line = fmt::format("the provider sets {}", taken.empty() ? "nothing" : List(taken));
  if (!left.empty()) line += fmt::format("; the program's own value holds of {}", List(left));
  if (!forbidden.empty()) {
    line += fmt::format("; HARMONAIZE_NCCL_SETTINGS keeps out {}", List(forbidden));
  }
  if (!settings.empty() || !forbidden.empty()) Log(LogLevel::kInfo, kLogOfEnv, "{}", line);
  return settings;
}

void AskAndPublish() {
  const Permission permission(Setting("HARMONAIZE_NCCL_SETTINGS"));
  if (!permission.unknown().empty()) {
    Log(LogLevel::kWarning, kLogOfEnv,
        "HARMONAIZE_NCCL_SETTINGS is all, none or names such as NCCL_IB_TC between commas: {} is "
        "none of these, and allows nothing",
        List(permission.unknown()));
  }
  std::vector<NcclSetting> settings;
  if (!permission.allows_nothing()) {
    Result<std::vector<NcclSetting>> asked = AskForSettings();
    if (asked.ok()) {
      settings = Select(*std::move(asked), permission);
    } else if (asked.status().code() != Code::kUnavailable) {
      Log(LogLevel::kInfo, kLogOfEnv, "the provider's settings are not known: {}",
          asked.status().message());
    }
  }
  in_force.store(Keep(std::move(settings)), std::memory_order_release);
}

}  // namespace

void Begin() noexcept {
  users.fetch_add(1, std::memory_order_relaxed);
  try {
    AskAndPublish();
  } catch (...) {
    // Without memory there are no settings of the provider's; NCCL itself goes on.
  }
}

ncclResult_t Finalize() noexcept {
  int now = users.load(std::memory_order_relaxed);
  while (now > 0 && !users.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) {
  }
  return ncclSuccess;
}

const char* GetEnv(const char* name) noexcept {
  if (name == nullptr) return nullptr;
  const char* const own = Setting(name);
  if (own != nullptr) return own;
  const Snapshot* const snapshot = in_force.load(std::memory_order_acquire);
  if (snapshot == nullptr || users.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::string_view wanted(name);
  const auto found = std::lower_bound(
      snapshot->settings.begin(), snapshot->settings.end(), wanted,
      [](const NcclSetting& setting, std::string_view other) { return setting.name < other; });
  if (found == snapshot->settings.end() || found->name != wanted) return nullptr;
  return found->value.c_str();
}

}  // namespace harmonaize::nccl_env
