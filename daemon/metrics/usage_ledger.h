#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::daemon {

class Background;
class CommunicatorRegistry;
class TenantTable;

/// What a tenant has used of this host since `since_seconds`. No number ever falls.
struct TenantUsage {
  uint32_t number = 0;  ///< TenantIdentity::number; 0 where `here` is false.
  bool here = false;    ///< The tenant has been here since the daemon started.
  std::string key;      ///< TenantIdentity::name, by which later daemons know the tenant again.
  std::string name;     ///< For people.
  double since_seconds = 0;  ///< Since 1970: when the tenant was seen first.
  uint64_t operations = 0;   ///< As Tenant::operations.
  uint64_t bytes = 0;        ///< As Tenant::bytes.
  /// What the tenant's ranks say that they did inline, which nobody checks.
  uint64_t claimed_operations = 0;
  uint64_t claimed_bytes = 0;
  uint64_t worked_ns = 0;   ///< As Tenant::worked_ns.
  uint64_t request_ns = 0;  ///< As Account::request_nanoseconds.
};

/// Keeps account of what tenants have used, over the lives of daemons where there is a state
/// directory. A daemon that is killed forgets what was used since the last write, which is a minute
/// at most while operations are carried out. Thread: engine, but for KeepNow.
class UsageLedger {
 public:
  struct Services {
    const TenantTable* tenants = nullptr;
    const CommunicatorRegistry* communicators = nullptr;
    Background* background = nullptr;  ///< Writes the file.
    std::string state_path = {};       ///< "": nothing is kept.
  };

  /// Reads what earlier daemons have kept. A file that cannot be understood is set aside, and the
  /// log says so.
  explicit UsageLedger(Services services);

  /// Returns the usage of all tenants, also of those that only earlier daemons have seen, up to
  /// kMostKept of these; the rest is one entry with the key "".
  std::vector<TenantUsage> Look();

  /// Has the file written, if the last time is long enough ago.
  void KeepIfDue(uint64_t now_ns);
  /// Writes the file. Thread: any; requires: the engine's thread has ended.
  Status KeepNow();

  /// Most tenants of earlier daemons that are kept one by one. It bounds the file, since containers
  /// come and go.
  static constexpr size_t kMostKept = 4096;

 private:
  class File;

  Status Open();
  void Read();

  const Services services_;
  std::shared_ptr<File> file_;                 // nullptr: nothing is kept
  std::map<std::string, TenantUsage> before_;  // by key; of earlier daemons
  std::map<uint32_t, TenantUsage> told_;       // by number; as of the last look
  uint64_t next_keep_ns_ = 0;
};

/// Returns the text of a usage file.
std::string FormatUsageFile(const std::vector<TenantUsage>& usage);
/// Reads the text of a usage file. Errors: kInvalidArgument says what is wrong; nothing is read of
/// a text that is wrong anywhere.
Result<std::vector<TenantUsage>> ParseUsageFile(std::string_view text);

}  // namespace harmonaize::daemon
