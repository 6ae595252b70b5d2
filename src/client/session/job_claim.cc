#include "src/client/session/job_claim.h"

#include <array>
#include <cstdlib>
#include <mutex>
#include <string>
#include <variant>

#include "src/base/clean_text.h"
#include "src/base/log.h"
#include "src/base/settings.h"
#include "src/client/session/requirements_file.h"

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

/// What SetJob has said.
struct SaidJob {
  std::mutex mutex;
  std::string name;                  // guarded by mutex
  JobKind kind = JobKind::kUnknown;  // likewise
};
SaidJob& Said() {
  static SaidJob said;
  return said;
}

/// Returns kUnknown for a kind that does not exist.
JobKind KindNamed(std::string_view name) {
  for (int kind = 1; kind < kJobKindCount; ++kind) {
    if (std::string_view(JobKindName(static_cast<JobKind>(kind))) == name) {
      return static_cast<JobKind>(kind);
    }
  }
  return JobKind::kUnknown;
}

/// Returns what the file of requirements says under a key, or "".
std::string TextInFile(std::string_view key) {
  const Result<ProcessRequirements>& file = RequirementsOfProcess();
  if (!file.ok()) return "";  // whoever makes a communicator is told
  const auto found = file->requirements.values.find(key);
  if (found == file->requirements.values.end()) return "";
  return std::get<std::string>(found->second);
}

JobKind KindOfJob() {
  const char* const value = Setting("HARMONAIZE_JOB_KIND");
  if (value == nullptr || *value == '\0') return KindNamed(TextInFile("job.kind"));
  const JobKind kind = KindNamed(value);
  if (kind != JobKind::kUnknown) return kind;
  Log(LogLevel::kWarning, kLogInit,
      "HARMONAIZE_JOB_KIND is '{}', and counts as not set: there are training, inference and batch",
      value);
  return JobKind::kUnknown;
}

std::string NameOfJob() {
  const char* const name = Setting("HARMONAIZE_JOB");
  return name == nullptr || *name == '\0' ? TextInFile("job.name") : name;
}

}  // namespace

void ClaimJob(HelloRequest* hello) {
  std::string name;
  JobKind kind = JobKind::kUnknown;
  {
    SaidJob& said = Said();
    const std::lock_guard lock(said.mutex);
    name = said.name;
    kind = said.kind;
  }
  SetFieldText(hello->job_name, name.empty() ? NameOfJob() : name);
  hello->job_group = GroupOfProcess();
  hello->job_kind = kind == JobKind::kUnknown ? KindOfJob() : kind;
}

std::string NameOfProcessJob() {
  SaidJob& said = Said();
  const std::lock_guard lock(said.mutex);
  return said.name.empty() ? NameOfJob() : said.name;
}

Status SetJob(std::string_view name, std::string_view kind) {
  if (name.size() >= sizeof(HelloRequest::job_name)) {
    return InvalidArgument("the job's name has {} bytes, more than {}", name.size(),
                           sizeof(HelloRequest::job_name) - 1);
  }
  if (CleanText(name, name.size()) != name) {
    return InvalidArgument("the job's name must be one line of text");
  }
  const JobKind known = KindNamed(kind);
  if (!kind.empty() && known == JobKind::kUnknown) {
    return InvalidArgument("the job's kind is '{}': there are training, inference and batch",
                           CleanText(kind, 64));
  }
  SaidJob& said = Said();
  const std::lock_guard lock(said.mutex);
  if (!name.empty()) said.name = name;
  if (!kind.empty()) said.kind = known;
  return Status::Ok();
}

}  // namespace harmonaize
