#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Shows a daemon's work between two status documents that lie `seconds` apart, for a screen that
/// is redrawn repeatedly: how busy its workers were; each tenant's and each communicator's
/// operations and bytes a second, the busiest first, with the plan of most of its operations; the
/// busiest rails to other daemons; and links of the fabric that carry less than stated. At most
/// `rows` of each. Fields are those of StatusTable and LinkTable, and of a communicator
/// "congestion", "plan_changes" and "plans": [{"collective", "bytes", "algorithm", "order",
/// "operations"}].
///
/// Missing fields are shown as "-". Errors: kRemoteError when either is no JSON object.
Result<std::string> TopView(std::string_view before, std::string_view after, double seconds,
                            size_t rows);

}  // namespace harmonaize
