#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/completion/completer.h"

namespace harmonaize {

/// Returns the values of a kind that there are: the types of events ("TYPES"), the collectives
/// ("COLLECTIVE"), and what the daemon at `socket` ("": the one that a client finds) tells of jobs
/// ("JOB"), hosts ("ADDRESS") and tokens ("TOKEN"). What the daemon tells is a plain word
/// (IsPlainWord): a job with another name is there by its id. Where no daemon answers there is
/// nothing of it.
std::vector<Continuation> NamesOf(std::string_view kind, const std::string& socket);

}  // namespace harmonaize
