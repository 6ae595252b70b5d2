#include "daemon/runtime/guarded.h"

#include <exception>
#include <new>

#include "src/base/clean_text.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// The longest text of an exception that is passed on, in bytes: it may quote a tenant's words.
constexpr size_t kMostExceptionText = 256;

}  // namespace

Status CaughtException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return SystemError("the daemon got no memory for it");
  } catch (const std::exception& exception) {
    return InternalError("the daemon failed at it, which is a bug of the daemon's: {}",
                         CleanText(exception.what(), kMostExceptionText));
  } catch (...) {
    return InternalError("the daemon failed at it, which is a bug of the daemon's");
  }
}

void LogException(std::string_view what, const Status& exception) {
  Log(LogLevel::kError, kLogInit, "{} was ended: {}", what, exception.message());
}

}  // namespace harmonaize::daemon
