// The daemon's configuration, and what a private daemon is given on top of a user's.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "daemon/config/config.h"
#include "src/base/toml_defaults.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

/// A file that is read by its path, without a file system.
class ConfigFile {
 public:
  const std::string& Write(std::string_view text) {
    Require(ftruncate(fd_, 0) == 0 &&
                pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()),
            "room for the file");
    return path_;
  }

 private:
  const int fd_ = memfd_create("config", MFD_CLOEXEC);
  const std::string path_ = "/proc/self/fd/" + std::to_string(fd_);
};

constexpr std::string_view kDefaults = "[workers]\ncount = 2\n[socket]\npath = \"/run/one\"\n";

void Run(std::string_view text) {
  static ConfigFile file;
  const Result<daemon::Config> config = daemon::LoadConfig(file.Write(text));
  if (!config.ok()) return RequireClean(config.status().message(), "a clean error");
  Require(config->workers >= 1 && config->workers <= 1024, "workers within their bounds");
  const std::string written = daemon::ConfigTemplate(*config);
  const Result<daemon::Config> again = daemon::LoadConfig(file.Write(written));
  RequireOk(again.status(), "a configuration can be read as --print-config shows it");
  Require(daemon::ConfigTemplate(*again) == written, "and is the same then");

  const Result<std::string> with_defaults = WithTomlDefaults(text, "fuzz.toml", kDefaults);
  RequireOk(with_defaults.status(), "defaults can be added to what can be read");
  RequireOk(daemon::LoadConfig(file.Write(*with_defaults)).status(),
            "and what comes of it can be read");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
