#include "cli/run/program_paths.h"

#include <unistd.h>

#include <filesystem>
#include <initializer_list>
#include <system_error>

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

constexpr char kPreloadLibrary[] = "libharmonaize-preload.so";
constexpr char kDaemon[] = "harmonaized";
constexpr char kWriter[] = "harmonaize-writer";

Result<fs::path> OwnFolder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return ErrnoError(error.value(), "cannot read /proc/self/exe");
  return program.parent_path();
}

}  // namespace

Result<std::string> FindPreloadLibrary() {
  HZ_ASSIGN_OR_RETURN(fs::path folder, OwnFolder());
  std::string tried;
  for (const char* place : {"lib", HARMONAIZE_LIBRARY_FOLDER}) {
    const fs::path candidate = folder.parent_path() / place / kPreloadLibrary;
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored)) return candidate.string();
    if (tried.find(candidate.string()) == std::string::npos) tried += " " + candidate.string();
  }
  return Unavailable("cannot find {}; tried{} (--no-preload runs without it)", kPreloadLibrary,
                     tried);
}

Result<std::string> FindWriterProgram() {
  HZ_ASSIGN_OR_RETURN(fs::path folder, OwnFolder());
  const std::string candidate = (folder / kWriter).string();
  return ::access(candidate.c_str(), X_OK) == 0 ? candidate : std::string();
}

Result<std::string> FindDaemonProgram() {
  HZ_ASSIGN_OR_RETURN(fs::path folder, OwnFolder());
  const std::string candidate = (folder / kDaemon).string();
  if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  return Unavailable("cannot start a private daemon: there is no {}", candidate);
}

}  // namespace harmonaize
