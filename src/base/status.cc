#include "src/base/status.h"

#include <cstring>

namespace harmonaize {

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kInvalidUsage: return "invalid usage";
    case Code::kSystemError: return "system error";
    case Code::kRemoteError: return "remote error";
    case Code::kInternalError: return "internal error";
    case Code::kInProgress: return "in progress";
    case Code::kUnavailable: return "unavailable";
  }
  return "unknown code";
}

const std::string& Status::NoMessage() {
  static const std::string* const kNone = new std::string();
  return *kNone;
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return fmt::format("{}: {}", CodeName(code()), message());
}

Status FormatStatus(Code code, fmt::string_view format, fmt::format_args args) {
  return Status(code, fmt::vformat(format, args));
}

Status ErrnoError(int error_number, std::string what) {
  char buffer[128];
  return Status(Code::kSystemError,
                fmt::format("{}: {}", what, strerror_r(error_number, buffer, sizeof buffer)));
}

}  // namespace harmonaize
