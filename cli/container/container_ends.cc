#include "cli/container/container_ends.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/run/child_process.h"
#include "cli/run/environment.h"
#include "src/base/file_descriptor.h"
#include "src/base/small_file.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

/// Number of digits of a container's id.
constexpr size_t kIdDigits = 64;
/// Most bytes of the file with an id, and what may come to it.
constexpr size_t kMostIdBytes = 128;
/// Milliseconds that the engine has for killing containers. A launcher that ends must not wait
/// longer for an engine that hangs.
constexpr int kKillMilliseconds = 10'000;

/// Returns the id in the file; "" where the client has written none.
std::string IdIn(const std::string& file) {
  Result<std::string> text = ReadSmallFile(file, kMostIdBytes);
  if (!text.ok()) return "";
  std::string id = std::move(text).value();
  id.erase(std::find_if(id.begin(), id.end(), [](unsigned char c) { return std::isspace(c); }),
           id.end());
  // A shorter one would stand for any container whose id begins so.
  const bool good = id.size() == kIdDigits &&
                    std::all_of(id.begin(), id.end(), [](unsigned char c) { return isxdigit(c); });
  return good ? id : "";
}

}  // namespace

ContainerEnds::ContainerEnds(const ContainerCommand& command, std::string folder)
    : kill_(command.words.begin(),
            command.words.begin() + static_cast<std::ptrdiff_t>(command.verb_begin)),
      folder_(std::move(folder)) {
  kill_.emplace_back("kill");
}

bool ContainerEnds::IsNeededFor(const ContainerCommand& command) {
  constexpr std::string_view kIdFile[] = {"--cidfile"};
  return command.kind == RuntimeKind::kDocker && !command.EntersRunning() &&
         !HasOption(command.options, kIdFile);
}

std::string ContainerEnds::FileOf(int number) const {
  return folder_.empty() ? "" : fmt::format("{}/{}", folder_, number);
}

void ContainerEnds::Kill(const std::vector<int>& numbers) const {
  if (folder_.empty()) return;
  std::vector<std::string> files;
  for (const int number : numbers) files.push_back(FileOf(number));
  KillOfFiles(files);
}

void ContainerEnds::KillAll() const {
  if (folder_.empty()) return;
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    files.push_back(entry.path().string());
  }
  KillOfFiles(files);
}

// What the engine says is not shown: most containers have ended by then, of which it complains.
void ContainerEnds::KillOfFiles(const std::vector<std::string>& files) const {
  ChildSpec spec;
  spec.arguments = kill_;
  for (const std::string& file : files) {
    if (std::string id = IdIn(file); !id.empty()) spec.arguments.push_back(std::move(id));
  }
  if (spec.arguments.size() == kill_.size()) return;
  spec.environment = Environment::OfThisProcess().Lines();
  ::sigemptyset(&spec.signal_mask);
  const FileDescriptor null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  spec.prepare = [&null] {
    return ::dup2(null.get(), STDOUT_FILENO) >= 0 && ::dup2(null.get(), STDERR_FILENO) >= 0;
  };
  const Result<ChildProcess> child = ChildProcess::Start(spec);
  if (!child.ok()) return;
  pollfd ended{.fd = child.value().pidfd(), .events = POLLIN, .revents = 0};
  ::poll(&ended, 1, kKillMilliseconds);
}

}  // namespace harmonaize
