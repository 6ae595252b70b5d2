#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// What a daemon did between two status documents that lie `seconds` apart, for a screen that is
/// drawn again and again: how busy its workers were; each tenant's and each communicator's
/// operations and bytes a second, the busiest first, with the plan that most of its operations go
/// by; the busiest rails to other daemons; and links of the fabric that carry less than is stated.
/// Of each at most `rows`. Fields as in StatusTable and LinkTable, and of a communicator
/// "congestion", "plan_changes" and "plans": [{"collective", "bytes", "algorithm", "order",
/// "operations"}].
///
/// What is missing is shown as "-". kRemoteError when either is no JSON object.
Result<std::string> TopView(std::string_view before, std::string_view after, double seconds,
                            size_t rows);

}  // namespace harmonaize
