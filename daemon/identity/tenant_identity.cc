#include "daemon/identity/tenant_identity.h"

#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace harmonaize::daemon {
namespace {

/// Hexadecimal digits of the ids that container runtimes draw.
constexpr size_t kContainerIdDigits = 64;

/// The longest line that subuid(5) and /proc/PID/cgroup can sensibly have, in bytes.
constexpr size_t kMostLineBytes = 8192;

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<uid_t> UserOf(std::string_view name_or_number) {
  if (const auto number = Number(name_or_number)) {
    // The kernel keeps the largest number for "no user".
    if (*number >= std::numeric_limits<uid_t>::max()) return std::nullopt;
    return static_cast<uid_t>(*number);
  }
  // Users with subordinate ids are in the host's own files, so this asks no server for long.
  std::vector<char> buffer(kMostLineBytes);
  passwd entry{};
  passwd* found = nullptr;
  const std::string name(name_or_number);
  if (getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || !found) {
    return std::nullopt;
  }
  return found->pw_uid;
}

bool HoldsContainerId(std::string_view name) {
  size_t digits = 0;
  for (const char one : name) {
    const bool is_digit = (one >= '0' && one <= '9') || (one >= 'a' && one <= 'f');
    digits = is_digit ? digits + 1 : 0;
    if (digits == kContainerIdDigits) return true;
  }
  return false;
}

/// Returns the path of the process's control group in the unified hierarchy; "" if it has none.
std::string ControlGroupOf(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/cgroup", process));
  for (std::string line; std::getline(file, line) && line.size() < kMostLineBytes;) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "";
}

bool HasEnded(int process) {
  pollfd ended{process, POLLIN, 0};
  return poll(&ended, 1, 0) != 0;
}

}  // namespace

void SubordinateIds::ReadIfChanged() {
  std::error_code failure;
  const auto changed = std::filesystem::last_write_time(file_, failure);
  if (failure) return ranges_.clear();
  if (changed == changed_) return;
  changed_ = changed;
  ranges_.clear();
  std::ifstream file(file_);
  for (std::string line; std::getline(file, line) && line.size() < kMostLineBytes;) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto owner = UserOf(std::string_view(line).substr(0, first));
    const auto from = Number(std::string_view(line).substr(first + 1, second - first - 1));
    const auto count = Number(std::string_view(line).substr(second + 1));
    if (!owner || !from || !count) continue;
    ranges_.push_back({static_cast<uid_t>(*from), *count, *owner});
  }
}

uid_t SubordinateIds::OwnerOf(uid_t id) {
  ReadIfChanged();
  const auto found = std::find_if(ranges_.begin(), ranges_.end(), [id](const Range& range) {
    return id >= range.first && id - range.first < range.count;
  });
  return found == ranges_.end() ? id : found->owner;
}

std::string ContainerOf(const std::string& control_group) {
  if (control_group.rfind("/user.slice/", 0) == 0) return "";
  for (size_t begin = 1; begin < control_group.size();) {
    const size_t end = std::min(control_group.find('/', begin), control_group.size());
    if (HoldsContainerId(std::string_view(control_group).substr(begin, end - begin))) {
      return control_group.substr(0, end);
    }
    begin = end + 1;
  }
  return "";
}

Result<TenantIdentity> TenantIdentifier::Identify(const PeerCredentials& peer, int process,
                                                  const std::string& socket_name) {
  const uid_t user = subordinate_ids_.OwnerOf(peer.user);
  if (!socket_name.empty()) {
    const uint32_t number = NumberFromName(socket_name);
    return TenantIdentity{number, number, user, socket_name};
  }
  TenantIdentity identity{user, user, user, fmt::format("uid {}", user)};
  if (config_.identity != "cgroup") return identity;
  const std::string container = ContainerOf(ControlGroupOf(peer.process));
  // If the process still lives now, its number had not passed to another process when the control
  // group was read.
  if (process >= 0 && HasEnded(process)) return RemoteError("the process has ended");
  if (container.empty()) return identity;
  identity.name += fmt::format(" in {}", container);
  identity.number = NumberOf(identity.name);
  return identity;
}

uint32_t TenantIdentifier::NumberOf(const std::string& name) {
  const auto next = kFirstGivenNumber / 2 * 3 + static_cast<uint32_t>(numbers_.size());
  return numbers_.emplace(name, next).first->second;
}

std::optional<uint32_t> TenantNamed(const std::string& name, const TenantsConfig& tenants) {
  for (const TenantsConfig::Socket& socket : tenants.sockets) {
    if (socket.name == name) return NumberFromName(name);
  }
  return UserOf(name);
}

std::shared_ptr<Account> Accounts::Of(uint32_t tenant, const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Account>& account = accounts_[tenant];
  if (account == nullptr) account = std::make_shared<Account>(host_, name);
  return account;
}

}  // namespace harmonaize::daemon
