#pragma once

#include <string_view>

namespace harmonaize {

/// Returns the standard's words for a status that a server of ours answers with, such as "Not
/// Found"; "Status" for any other.
std::string_view HttpReason(int status);

}  // namespace harmonaize
