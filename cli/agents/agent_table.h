#pragma once

#include <string>

#include "cli/json_view.h"

namespace harmonaize {

/// Returns what the document of GET /v1/agents has of one job, by its id.
Json AgentsOfJob(const Json& document, const std::string& job);

/// Shows the document of GET /v1/agents to people: a row for each agent of this host, with the
/// offers that it acts on, and then those of other hosts. Missing fields are shown as "-".
std::string AgentTable(const Json& document);

}  // namespace harmonaize
