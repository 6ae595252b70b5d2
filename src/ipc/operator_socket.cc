#include "src/ipc/operator_socket.h"

#include <string_view>

namespace harmonaize {

std::string OperatorSocketPath(const std::string& tenants_socket) {
  constexpr std::string_view kUsualName = "harmonaized.sock";
  if (!tenants_socket.ends_with(kUsualName)) return tenants_socket + ".operator";
  return tenants_socket.substr(0, tenants_socket.size() - kUsualName.size()) + "operator.sock";
}

}  // namespace harmonaize
