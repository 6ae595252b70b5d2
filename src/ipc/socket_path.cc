#include "src/ipc/socket_path.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace harmonaize {
namespace {

constexpr const char* kSystemSocket = "/run/harmonaize/harmonaized.sock";

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string UserSocket() {
  if (geteuid() == 0) return kSystemSocket;
  const std::string runtime_dir = FromEnvironment("XDG_RUNTIME_DIR");
  if (!runtime_dir.empty()) return runtime_dir + "/harmonaize/harmonaized.sock";
  return fmt::format("/tmp/harmonaize-{}/harmonaized.sock", geteuid());
}

}  // namespace

std::string DefaultSocketPath() {
  const std::string named = FromEnvironment("HARMONAIZE_SOCKET");
  return named.empty() ? UserSocket() : named;
}

std::vector<std::string> ClientSocketPaths() {
  const std::string named = FromEnvironment("HARMONAIZE_SOCKET");
  if (!named.empty()) return {named};
  std::vector<std::string> paths = {UserSocket()};
  if (paths.front() != kSystemSocket) paths.push_back(kSystemSocket);
  return paths;
}

}  // namespace harmonaize
