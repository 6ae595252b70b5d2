#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Returns what /v1/elasticity says for people: places, elastic jobs, jobs that wait, and the last
/// decisions. Errors: kRemoteError for a text that is no JSON object.
Result<std::string> ElasticityTable(std::string_view document);

}  // namespace harmonaize
