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
#include "daemon/quota/holdings.h"
#include "src/base/status.h"
#include "src/ipc/control_socket.h"

namespace harmonaize::daemon {

/// Who a tenant is. By default a tenant is a user of the host, and `number` is the user's; a tenant
/// that is told apart by more than its user has a number that this daemon gave it.
struct TenantIdentity {
  uint32_t number = 0;
  /// By which the daemons of different hosts know that a tenant is the same: the user's number, or
  /// one that stems from the name of the tenant's socket.
  uint32_t across_hosts = 0;
  uid_t user = 0;
  /// "uid 1000", "uid 0 in /kubepods/pod7/3f...", "team-a".
  std::string name;
};

/// Who asks for a report.
struct Reader {
  uint32_t tenant = 0;  ///< TenantIdentity::number.
  /// Sees all tenants, and what is the provider's.
  bool is_operator = false;
};

/// The file in which Linux distributions keep whose the subordinate user ids are.
inline constexpr char kSubordinateIdsFile[] = "/etc/subuid";

/// Subordinate ids (subuid(5)): a range of user ids belongs to a user, who can become each of them
/// in a user namespace. They count as that user, who would be thousands of tenants otherwise.
class SubordinateIds {
 public:
  explicit SubordinateIds(std::filesystem::path file = kSubordinateIdsFile)
      : file_(std::move(file)) {}

  /// To whom the id belongs: its owner by the file, else itself. Reads the file again when it has
  /// changed.
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

/// The part of a control group's path that stands for a container: up to and with the first name
/// that holds an id of 64 hexadecimal digits, as Docker, containerd, CRI-O and Podman name them.
/// "" outside of containers, and below user.slice, where users make groups of their own.
std::string ContainerOf(const std::string& control_group);

/// Tells tenants apart as the configuration says. Main thread only.
class TenantIdentifier {
 public:
  explicit TenantIdentifier(const TenantsConfig& config) : config_(config) {}

  /// `process` is a descriptor of the peer's, and `socket_name` the name of the tenant whose socket
  /// it came by, "" for the common one. kRemoteError when the process has ended meanwhile.
  Result<TenantIdentity> Identify(const PeerCredentials& peer, int process,
                                  const std::string& socket_name);

 private:
  uint32_t NumberOf(const std::string& name);

  const TenantsConfig config_;
  SubordinateIds subordinate_ids_;
  std::map<std::string, uint32_t> numbers_;
};

/// TenantIdentity::across_hosts of the tenant with this socket, user or number of a user.
std::optional<uint32_t> TenantNamed(const std::string& name, const TenantsConfig& tenants);

/// A number that stems from a name, the same on every host, and no user's number.
uint32_t NumberFromName(const std::string& name);

/// The accounts of all tenants, by TenantIdentity::number. Thread safe.
class Accounts {
 public:
  explicit Accounts(const ResourceLimits& limits) : host_(std::make_shared<HostHoldings>(limits)) {}

  /// Made at need, and then named so.
  std::shared_ptr<Account> Of(uint32_t tenant, const std::string& name);
  const HostHoldings& host() const { return *host_; }

 private:
  const std::shared_ptr<HostHoldings> host_;
  std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<Account>> accounts_;  // guarded by mutex_
};

}  // namespace harmonaize::daemon
