#include "src/client/session/job_claim.h"

#include <array>
#include <cstdlib>
#include <string_view>

#include "src/base/log.h"
#include "src/base/settings.h"

namespace harmonaize {
namespace {

/// Returns the 64-bit FNV-1a hash of a text, continued from `hash`.
/// Source: RFC 9923.
uint64_t Hash(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}
constexpr uint64_t kHashOfNothing = 0xcbf29ce484222325ULL;

/// Variables that a launcher sets to the same values in all processes of a job, and to others in
/// another job. A group counts only if its first variable is set.
constexpr std::array<std::array<const char*, 3>, 3> kLaunchers = {{
    {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"},
    {"SLURM_JOB_ID", "SLURM_STEP_ID", nullptr},
    {"PMIX_NAMESPACE", nullptr, nullptr},
}};

/// Returns a number for the group of processes that were started together; 0 if nothing tells.
uint64_t GroupOfProcess() {
  for (const auto& launcher : kLaunchers) {
    if (secure_getenv(launcher.front()) == nullptr) continue;
    uint64_t hash = kHashOfNothing;
    for (const char* const name : launcher) {
      if (name == nullptr) break;
      const char* const value = secure_getenv(name);
      hash = Hash(value == nullptr ? "" : value, Hash(name, hash));
    }
    return hash == 0 ? 1 : hash;
  }
  return 0;
}

JobKind KindOfJob() {
  const char* const value = Setting("HARMONAIZE_JOB_KIND");
  if (value == nullptr || *value == '\0') return JobKind::kUnknown;
  for (int kind = 1; kind < kJobKindCount; ++kind) {
    if (std::string_view(JobKindName(static_cast<JobKind>(kind))) == value) {
      return static_cast<JobKind>(kind);
    }
  }
  Log(LogLevel::kWarning, kLogInit,
      "HARMONAIZE_JOB_KIND is '{}', and counts as not set: there are training, inference and batch",
      value);
  return JobKind::kUnknown;
}

}  // namespace

void ClaimJob(HelloRequest* hello) {
  const char* const name = Setting("HARMONAIZE_JOB");
  SetFieldText(hello->job_name, name == nullptr ? "" : name);
  hello->job_group = GroupOfProcess();
  hello->job_kind = KindOfJob();
}

}  // namespace harmonaize
