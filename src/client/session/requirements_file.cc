#include "src/client/session/requirements_file.h"

#include <utility>

#include "src/base/settings.h"
#include "src/base/small_file.h"

namespace harmonaize {

Result<ProcessRequirements> ReadRequirementsFile(const std::string& path) {
  ProcessRequirements read;
  Result<std::string> text = ReadSmallFile(path, kMostRequirementsBytes);
  if (!text.ok()) {
    return Status(text.status().code(), "no requirements are read: " + text.status().message());
  }
  read.text = std::move(*text);
  HZ_ASSIGN_OR_RETURN(read.requirements, ParseRequirements(read.text, path));
  return read;
}

const Result<ProcessRequirements>& RequirementsOfProcess() {
  static const Result<ProcessRequirements> read = []() -> Result<ProcessRequirements> {
    const char* const path = Setting("HARMONAIZE_REQUIREMENTS");
    if (path == nullptr || *path == '\0') return ProcessRequirements{};
    return ReadRequirementsFile(path);
  }();
  return read;
}

}  // namespace harmonaize
