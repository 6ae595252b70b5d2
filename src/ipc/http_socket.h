#pragma once

#include <string>

namespace harmonaize {

/// Returns where a daemon serves HTTP to those who connect at `socket` otherwise. It is in the same
/// folder: http.sock beside harmonaized.sock, operator-http.sock beside operator.sock, and
/// NAME.http beside any other NAME.
std::string HttpSocketPath(const std::string& socket);

}  // namespace harmonaize
