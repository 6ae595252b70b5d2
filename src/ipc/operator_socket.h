#pragma once

#include <string>

namespace harmonaize {

/// Returns where a daemon listens for operators if its tenants connect at `tenants_socket`: in the
/// same folder, at operator.sock beside harmonaized.sock, and at NAME.operator beside any other
/// NAME.
std::string OperatorSocketPath(const std::string& tenants_socket);

}  // namespace harmonaize
