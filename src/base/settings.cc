#include "src/base/settings.h"

#include <pwd.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace harmonaize {
namespace {

constexpr const char* kSystemFile = "/etc/nccl.conf";

/// Bytes of a configuration file that are read: thousands of lines. A file without an end, such as
/// a device, must not fill the memory.
constexpr size_t kMostFileBytes = 1 << 20;

/// Returns the start of a file; "" where it cannot be read.
std::string ReadStart(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  if (file == nullptr) return "";
  std::string text;
  char part[4096];
  size_t bytes = 0;
  while (text.size() < kMostFileBytes &&
         (bytes = std::fread(part, 1, sizeof part, file.get())) > 0) {
    text.append(part, bytes);
  }
  return text;
}

/// Returns the user's home directory as NCCL finds it: HOME, or else the user database's entry.
std::string HomeDirectory() {
  if (const char* home = secure_getenv("HOME"); home != nullptr) return home;
  const long wanted = sysconf(_SC_GETPW_R_SIZE_MAX);
  std::vector<char> texts(wanted > 0 ? static_cast<size_t>(wanted) : 16384);
  passwd entry = {};
  passwd* found = nullptr;
  if (getpwuid_r(getuid(), &entry, texts.data(), texts.size(), &found) != 0) return "";
  return found != nullptr && found->pw_dir != nullptr ? found->pw_dir : "";
}

/// Returns the path of the user's file; "" where there is no home directory.
std::string UserFile() {
  // The path is used as it is: NCCL expands no ~ in it either.
  const char* named = secure_getenv("NCCL_CONF_FILE");
  if (named != nullptr && *named != '\0') return named;
  const std::string home = HomeDirectory();
  return home.empty() ? "" : home + "/.nccl.conf";
}

SettingMap* ReadFiles() {
  auto settings = std::make_unique<SettingMap>();
  const bool trusts_user = getauxval(AT_SECURE) == 0;
  if (trusts_user) AddSettings(ReadStart(UserFile()), settings.get());
  AddSettings(ReadStart(kSystemFile), settings.get());
  return settings.release();
}

}  // namespace

void AddSettings(std::string_view text, SettingMap* settings) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos || equals == 0) continue;
    settings->emplace(line.substr(0, equals), line.substr(equals + 1));
  }
}

const char* Setting(const char* name) noexcept try {
  const char* value = secure_getenv(name);
  if (value != nullptr) return value;
  // Never destroyed: other static objects may ask during their destruction.
  static const SettingMap* const files = ReadFiles();
  const auto found = files->find(std::string_view(name));
  return found != files->end() ? found->second.c_str() : nullptr;
} catch (...) {
  // If there is no memory for the files, they count as missing until there is.
  return nullptr;
}

}  // namespace harmonaize
