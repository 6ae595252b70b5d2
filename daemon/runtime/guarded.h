#pragma once

#include <string_view>
#include <type_traits>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Returns the exception that is being handled as an error: kSystemError if memory ran out,
/// kInternalError for any other exception. Requires: the caller is in a catch block.
Status CaughtException();

/// Writes to the log that `what` was ended by this exception.
void LogException(std::string_view what, const Status& exception);

/// Returns what `call` returns, a Status or a Result. An exception of `call` is returned as an
/// error. Throws std::bad_alloc if there is no memory for that error.
template <typename Call>
std::invoke_result_t<Call> Caught(Call&& call) {
  try {
    return call();
  } catch (...) {
    return CaughtException();
  }
}

/// Runs `call`, and passes an exception of it to `on_exception` as a Status. Returns false if
/// `on_exception` threw too, for example because there is no memory for an error message. A caller
/// that must react then needs a step that cannot throw.
template <typename Call, typename OnException>
bool Guarded(Call&& call, OnException&& on_exception) noexcept {
  try {
    call();
  } catch (...) {
    try {
      on_exception(CaughtException());
    } catch (...) {
      return false;
    }
  }
  return true;
}

/// Runs `call`, and logs that an exception ended `what`.
template <typename Call>
void GuardedAndLogged(std::string_view what, Call&& call) noexcept {
  Guarded(call, [what](const Status& exception) { LogException(what, exception); });
}

}  // namespace harmonaize::daemon
