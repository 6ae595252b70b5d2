#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/config/tenant_number.h"
#include "daemon/quota/holdings.h"
#include "src/base/status.h"
#include "src/ipc/control_socket.h"

namespace harmonaize::daemon {

/// The identity of a tenant. By default a tenant is a user of the host, and `number` is the user's
/// number. A tenant that is told apart by more than its user has a number of its own.
struct TenantIdentity {
  uint32_t number = 0;
  /// Number by which the daemons of different hosts recognize the tenant: the user's number, or one
  /// derived from the name of the tenant's socket.
  uint32_t across_hosts = 0;
  uid_t user = 0;
  /// Name for people, such as "uid 1000", "uid 0 in /kubepods/pod7/3f..." or "team-a".
  std::string name;
};

/// The reader of a report.
struct Reader {
  uint32_t tenant = 0;  ///< TenantIdentity::number.
  /// An operator sees all tenants, and what only the provider may see.
  bool is_operator = false;
};

/// The file in which Linux distributions record the owners of subordinate user ids.
inline constexpr char kSubordinateIdsFile[] = "/etc/subuid";

/// The owners of subordinate user ids (subuid(5)). A user owns a range of ids and can become each
/// of them in a user namespace. The ids count as their owner, who would be thousands of tenants
/// otherwise.
class SubordinateIds {
 public:
  explicit SubordinateIds(std::filesystem::path file = kSubordinateIdsFile)
      : file_(std::move(file)) {}

  /// Returns the owner of the id by the file, or the id itself if it has none. Reads the file again
  /// when it has changed.
  uid_t OwnerOf(uid_t id);

 private:
  struct Range {
    uid_t first = 0;
    uint64_t count = 0;
    uid_t owner = 0;
  };

  void ReadIfChanged();

  const std::filesystem::path file_;
  std::filesystem::file_time_type changed_{};
  std::vector<Range> ranges_;
};

/// Returns the part of a control group's path that stands for a container: up to and including the
/// first name that holds an id of 64 hexadecimal digits, as Docker, containerd, CRI-O and Podman
/// name them. Returns "" outside of containers, and below user.slice, where users make groups of
/// their own.
std::string ContainerOf(const std::string& control_group);

/// Tells tenants apart as the configuration says. Thread: main.
class TenantIdentifier {
 public:
  explicit TenantIdentifier(const TenantsConfig& config) : config_(config) {}

  /// Returns the identity of a peer. `process` is a descriptor of the peer's process. `socket_name`
  /// is the name of the tenant at whose socket the peer connected; "" for the common socket.
  /// Returns kRemoteError if the process ended before its container was known.
  Result<TenantIdentity> Identify(const PeerCredentials& peer, int process,
                                  const std::string& socket_name);

 private:
  uint32_t NumberOf(const std::string& name);

  const TenantsConfig config_;
  SubordinateIds subordinate_ids_;
  std::map<std::string, uint32_t> numbers_;
};

/// Returns TenantIdentity::across_hosts of the tenant whose socket, user name or user number is
/// `name`; nullopt if there is none.
std::optional<uint32_t> TenantNamed(const std::string& name, const TenantsConfig& tenants);

/// The accounts of all tenants, by TenantIdentity::number. Thread: any.
class Accounts {
 public:
  explicit Accounts(const ResourceLimits& limits) : host_(std::make_shared<HostHoldings>(limits)) {}

  /// Returns the tenant's account. The first call for a tenant makes it, under `name`.
  std::shared_ptr<Account> Of(uint32_t tenant, const std::string& name);
  const HostHoldings& host() const { return *host_; }

 private:
  const std::shared_ptr<HostHoldings> host_;
  std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<Account>> accounts_;  // guarded by mutex_
};

}  // namespace harmonaize::daemon
