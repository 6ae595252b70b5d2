#include "src/ipc/socket_path.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

namespace harmonaize {
namespace {

constexpr const char* kSystemSocket = "/run/harmonaize/harmonaized.sock";

std::string FromEnvironment(const char* name) {
  const char* value = secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string UserSocket() {
  if (geteuid() == 0) return kSystemSocket;
  const std::string runtime_folder = RuntimeFolder();
  if (!runtime_folder.empty()) return runtime_folder + "/harmonaize/harmonaized.sock";
  return OwnTemporaryFolder() + "/harmonaized.sock";
}

}  // namespace

std::string DefaultSocketPath() {
  const std::string named = FromEnvironment("HARMONAIZE_SOCKET");
  return named.empty() ? UserSocket() : named;
}

std::vector<SocketPlace> ClientSocketPlaces() {
  const std::string named = FromEnvironment("HARMONAIZE_SOCKET");
  if (!named.empty()) return {{named, true}};
  std::vector<SocketPlace> places = {{kSystemSocket}};
  if (const std::string own = UserSocket(); own != kSystemSocket) places.push_back({own});
  return places;
}

std::string RuntimeFolder() {
  const std::string folder = FromEnvironment("XDG_RUNTIME_DIR");
  return folder.starts_with('/') ? folder : std::string();
}

std::string OwnTemporaryFolder() {
  return fmt::format("/tmp/harmonaize-{}", geteuid());
}

}  // namespace harmonaize
