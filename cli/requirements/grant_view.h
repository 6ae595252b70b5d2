#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// Why a daemon tells of a grant.
enum class GrantOccasion {
  kStated,     ///< It is what a job has now.
  kForgotten,  ///< It is what a job has since all that was asked for it was forgotten.
  kChecked,    ///< It is what a job would have.
};

/// Returns what a daemon grants, as it answers in JSON, for people: what holds, and below it what
/// is less than was asked for, with the reasons. Where nothing is asked for, it says so: that is no
/// refusal. Errors: kRemoteError for an answer of another form.
Result<std::string> GrantText(const std::string& answer, GrantOccasion occasion);

}  // namespace harmonaize
