#pragma once

#include <string_view>
#include <type_traits>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// The exception that is being handled, as an error for whoever asked: kSystemError where memory
/// ran out, kInternalError for any other. Requires: the caller is in a catch block.
Status CaughtException();

/// Writes to the log that `what` was ended by this exception.
void LogException(std::string_view what, const Status& exception);

/// What `call` gives, a Status or a Result; where it throws, the exception. Throws itself where
/// there is no memory to tell of one.
template <typename Call>
std::invoke_result_t<Call> Caught(Call&& call) {
  try {
    return call();
  } catch (...) {
    return CaughtException();
  }
}

/// Runs `call`. An exception ends this call alone: `on_exception` gets it as a Status. False where
/// `on_exception` was ended by an exception too, as there may be no memory even to tell of one: who
/// must not leave it at that has something left to do that throws nothing.
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

/// The same where nobody waits for an answer: the log tells that `what` was ended.
template <typename Call>
void GuardedAndLogged(std::string_view what, Call&& call) noexcept {
  Guarded(call, [what](const Status& exception) { LogException(what, exception); });
}

}  // namespace harmonaize::daemon
