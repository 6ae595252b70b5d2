#pragma once

#include <string>
#include <vector>

#include "cli/json_view.h"

namespace harmonaize {

/// Returns documents of GET /v1/jobs/{job}/flight in the form in which NCCL's RAS prints JSON
/// (`ncclras -f json` of NCCL 2.30.7; docs/diagnosis.md says what the fields hold). `unix_seconds`
/// is now, and the collection took `took_seconds`.
std::string RasDocument(const std::vector<Json>& flights, double unix_seconds, double took_seconds);

}  // namespace harmonaize
