#include "src/ipc/http_socket.h"

#include <string_view>
#include <utility>

namespace harmonaize {

std::string HttpSocketPath(const std::string& socket) {
  constexpr std::pair<std::string_view, std::string_view> kUsualNames[] = {
      {"harmonaized.sock", "http.sock"}, {"operator.sock", "operator-http.sock"}};
  const size_t name = socket.rfind('/') + 1;  // 0 without a folder
  for (const auto& [control, http] : kUsualNames) {
    if (std::string_view(socket).substr(name) == control) {
      return socket.substr(0, name) + std::string(http);
    }
  }
  return socket + ".http";
}

}  // namespace harmonaize
