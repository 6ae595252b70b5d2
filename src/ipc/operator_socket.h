#pragma once

#include <string>

namespace harmonaize {

/// Where the daemon whose tenants come by `tenants_socket` listens for operators: in the same
/// folder, at operator.sock beside harmonaized.sock, and at NAME.operator beside any other NAME.
std::string OperatorSocketPath(const std::string& tenants_socket);

}  // namespace harmonaize
