#include "daemon/metrics/usage_ledger.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/communicator/inline_segment.h"
#include "daemon/config/state_directory.h"
#include "daemon/runtime/background.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/json_text.h"
#include "src/base/log.h"
#include "src/base/saturating.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Time, in nanoseconds, between two writes. It bounds what is forgotten when the daemon is killed.
constexpr uint64_t kKeepNanoseconds = 60'000'000'000;
/// Longest file, in bytes, that is read: all tenants that are kept, with the longest names, of
/// which each byte may take six.
constexpr size_t kMostFileBytes = size_t{32} << 20;
/// Version of the file's form. A file of another version is not understood.
constexpr int kFileVersion = 1;

constexpr char kFileName[] = "usage.json";

/// A counter of TenantUsage, and its name in the file.
struct Field {
  const char* name;
  uint64_t TenantUsage::*value;
};
constexpr Field kFields[] = {{"operations", &TenantUsage::operations},
                             {"bytes", &TenantUsage::bytes},
                             {"claimed_inline_operations", &TenantUsage::claimed_operations},
                             {"claimed_inline_bytes", &TenantUsage::claimed_bytes},
                             {"worker_nanoseconds", &TenantUsage::worked_ns},
                             {"request_nanoseconds", &TenantUsage::request_ns}};

void AddTo(TenantUsage* sum, const TenantUsage& other) {
  for (const Field& field : kFields) {
    sum->*field.value = AddUpTo(sum->*field.value, other.*field.value);
  }
  if (other.since_seconds == 0) return;
  sum->since_seconds = sum->since_seconds == 0 ? other.since_seconds
                                               : std::min(sum->since_seconds, other.since_seconds);
}

/// Adds up the tenants that have used least, those of earlier daemons first, so that no more than
/// `most` remain beside the sum, which has the key "". A sum of earlier daemons is added, too.
void FoldTheLeast(std::vector<TenantUsage>* usage, size_t most) {
  TenantUsage rest;
  rest.name = "other";
  for (const TenantUsage& one : *usage) {
    if (one.key.empty()) AddTo(&rest, one);
  }
  std::erase_if(*usage, [](const TenantUsage& one) { return one.key.empty(); });
  std::stable_sort(usage->begin(), usage->end(), [](const TenantUsage& a, const TenantUsage& b) {
    return std::tie(b.here, b.bytes, b.operations) < std::tie(a.here, a.bytes, a.operations);
  });
  for (size_t i = most; i < usage->size(); ++i) AddTo(&rest, (*usage)[i]);
  if (usage->size() > most) usage->resize(most);
  if (rest.since_seconds > 0) usage->push_back(std::move(rest));
}

/// What ranks of the communicators that exist now say that they did inline, by tenant.
std::unordered_map<const Tenant*, TenantUsage> ClaimsNow(
    const CommunicatorRegistry& communicators) {
  std::unordered_map<const Tenant*, TenantUsage> claims;
  for (const auto& [id, communicator] : communicators.all()) {
    const InlineSegment* const segment = communicator->inline_segment();
    if (segment == nullptr) continue;
    TenantUsage& claim = claims[&communicator->tenant()];
    claim.claimed_operations = AddUpTo(claim.claimed_operations, segment->claimed_operations());
    claim.claimed_bytes = AddUpTo(claim.claimed_bytes, segment->claimed_bytes());
  }
  return claims;
}

Result<TenantUsage> UsageIn(const json& entry) {
  TenantUsage usage;
  const auto text = [&entry](const char* name, std::string* value) {
    const auto found = entry.find(name);
    if (found == entry.end() || !found->is_string()) return false;
    *value = found->get<std::string>();
    return true;
  };
  if (!entry.is_object() || !text("key", &usage.key) || !text("name", &usage.name)) {
    return InvalidArgument("a tenant without a name");
  }
  const auto since = entry.find("since");
  if (since == entry.end() || !since->is_number() || since->get<double>() < 0) {
    return InvalidArgument("the tenant '{}' has no beginning", usage.name);
  }
  usage.since_seconds = since->get<double>();
  for (const Field& field : kFields) {
    const auto found = entry.find(field.name);
    if (found == entry.end() || !found->is_number_unsigned()) {
      return InvalidArgument("the tenant '{}' lacks '{}'", usage.name, field.name);
    }
    usage.*field.value = found->get<uint64_t>();
  }
  return usage;
}

}  // namespace

std::string FormatUsageFile(const std::vector<TenantUsage>& usage) {
  json tenants = json::array();
  for (const TenantUsage& one : usage) {
    json entry = {{"key", one.key}, {"name", one.name}, {"since", one.since_seconds}};
    for (const Field& field : kFields) entry[field.name] = one.*field.value;
    tenants.push_back(std::move(entry));
  }
  const json file = {{"version", kFileVersion}, {"tenants", std::move(tenants)}};
  return JsonText(file, 1) + "\n";
}

Result<std::vector<TenantUsage>> ParseUsageFile(std::string_view text) {
  const json file = ReadJson(text);
  if (!file.is_object() || file.value("version", json()) != kFileVersion) {
    return InvalidArgument("no usage file of version {}", kFileVersion);
  }
  const auto tenants = file.find("tenants");
  if (tenants == file.end() || !tenants->is_array()) return InvalidArgument("no list of tenants");
  std::vector<TenantUsage> usage;
  for (const json& entry : *tenants) {
    HZ_ASSIGN_OR_RETURN(TenantUsage one, UsageIn(entry));
    usage.push_back(std::move(one));
  }
  return usage;
}

// ---------------------------------------------------------------------------------------------
// The file

/// The file of usage. Writes come on two threads, and an older one may come later. Thread: any.
class UsageLedger::File {
 public:
  /// The folder is closed to others: what one tenant has used is no business of another.
  explicit File(const std::string& state_path) : folder_(state_path + "/usage") {}

  Status MakeFolder() const {
    std::error_code failure;
    std::filesystem::create_directories(std::filesystem::path(folder_).parent_path(), failure);
    if (mkdir(folder_.c_str(), 0700) == 0 || errno == EEXIST) return Status::Ok();
    return ErrnoError(errno, "cannot make the folder " + folder_);
  }

  std::string path() const { return folder_ + "/" + kFileName; }

  uint64_t NextNumber() {
    const std::lock_guard lock(mutex_);
    return ++last_number_;
  }
  /// Writes the usage that has this number, unless a later one has been written.
  Status Write(std::vector<TenantUsage> usage, uint64_t number) {
    FoldTheLeast(&usage, kMostKept);
    const std::string text = FormatUsageFile(usage);
    const std::lock_guard lock(mutex_);
    if (number < written_number_ || text == written_) return Status::Ok();
    HZ_RETURN_IF_ERROR(ReplaceStateFile(folder_, kFileName, text));
    written_number_ = number;
    written_ = text;
    return Status::Ok();
  }

 private:
  const std::string folder_;
  std::mutex mutex_;
  uint64_t last_number_ = 0;     // guarded by mutex_
  uint64_t written_number_ = 0;  // likewise
  std::string written_;          // likewise
};

UsageLedger::UsageLedger(Services services) : services_(std::move(services)) {
  if (services_.state_path.empty()) return;
  const Status opened = Open();
  if (opened.ok()) Read();
  if (opened.ok()) return;
  Log(LogLevel::kWarning, kLogInit, "what tenants use is not kept: {}", opened.message());
}

Status UsageLedger::Open() {
  auto file = std::make_shared<File>(services_.state_path);
  HZ_RETURN_IF_ERROR(CheckStateFolder(services_.state_path));
  HZ_RETURN_IF_ERROR(file->MakeFolder());
  HZ_RETURN_IF_ERROR(CheckStateFolder(services_.state_path + "/usage"));
  file_ = std::move(file);
  return Status::Ok();
}

void UsageLedger::Read() {
  const std::string path = file_->path();
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file.good()) return;
  const auto size = static_cast<int64_t>(file.tellg());
  Status status;
  if (size > static_cast<int64_t>(kMostFileBytes)) {
    status = InvalidArgument("it is longer than {} bytes", kMostFileBytes);
  } else {
    file.seekg(0);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    Result<std::vector<TenantUsage>> usage = ParseUsageFile(text);
    status = usage.status();
    if (status.ok()) {
      FoldTheLeast(&*usage, kMostKept);
      for (const TenantUsage& one : *usage) before_.try_emplace(one.key, one);
    }
  }
  if (status.ok()) return;
  Log(LogLevel::kWarning, kLogInit, "{} is set aside, and usage is counted from now on: {}", path,
      status.message());
  std::rename(path.c_str(), (path + ".damaged").c_str());
}

void UsageLedger::KeepIfDue(uint64_t now_ns) {
  if (file_ == nullptr || now_ns < next_keep_ns_) return;
  next_keep_ns_ = now_ns + kKeepNanoseconds;
  services_.background->Post([file = file_, usage = Look(), number = file_->NextNumber()] {
    const Status kept = file->Write(usage, number);
    if (!kept.ok()) {
      Log(LogLevel::kWarning, kLogInit, "what tenants use is not kept: {}", kept.message());
    }
  });
}

Status UsageLedger::KeepNow() {
  if (file_ == nullptr) return Status::Ok();
  return file_->Write(Look(), file_->NextNumber());
}

// ---------------------------------------------------------------------------------------------
// The account

std::vector<TenantUsage> UsageLedger::Look() {
  const auto claims = ClaimsNow(*services_.communicators);
  std::vector<TenantUsage> all;
  std::map<std::string, TenantUsage> others = before_;
  for (const auto& [number, tenant] : services_.tenants->all()) {
    TenantUsage& told = told_[number];
    TenantUsage now;
    now.since_seconds = told.since_seconds == 0 ? UnixSeconds() : told.since_seconds;
    now.operations = tenant->operations;
    now.bytes = tenant->bytes;
    now.claimed_operations = tenant->claimed_operations;
    now.claimed_bytes = tenant->claimed_bytes;
    now.worked_ns = tenant->worked_ns;
    now.request_ns = tenant->account->request_nanoseconds();
    if (const auto claim = claims.find(tenant.get()); claim != claims.end()) {
      AddTo(&now, claim->second);
    }
    if (const auto before = others.find(tenant->identity.name); before != others.end()) {
      AddTo(&now, before->second);
      others.erase(before);
    }
    // Ranks can take back what they have claimed.
    now.claimed_operations = std::max(now.claimed_operations, told.claimed_operations);
    now.claimed_bytes = std::max(now.claimed_bytes, told.claimed_bytes);
    now.number = number;
    now.here = true;
    now.key = tenant->identity.name;
    now.name = tenant->name();
    told = now;
    all.push_back(std::move(now));
  }
  for (auto& [key, usage] : others) all.push_back(std::move(usage));
  return all;
}

}  // namespace harmonaize::daemon
