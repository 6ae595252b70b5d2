#include "src/ipc/http_reason.h"

#include <algorithm>
#include <array>

namespace harmonaize {
namespace {

struct Reason {
  int status;
  std::string_view words;
};

/// The statuses that our servers answer with, by RFC 9110 and RFC 6585.
constexpr std::array kReasons = {
    Reason{100, "Continue"},
    Reason{200, "OK"},
    Reason{201, "Created"},
    Reason{202, "Accepted"},
    Reason{204, "No Content"},
    Reason{304, "Not Modified"},
    Reason{400, "Bad Request"},
    Reason{401, "Unauthorized"},
    Reason{403, "Forbidden"},
    Reason{404, "Not Found"},
    Reason{405, "Method Not Allowed"},
    Reason{408, "Request Timeout"},
    Reason{409, "Conflict"},
    Reason{410, "Gone"},
    Reason{412, "Precondition Failed"},
    Reason{413, "Content Too Large"},
    Reason{415, "Unsupported Media Type"},
    Reason{417, "Expectation Failed"},
    Reason{421, "Misdirected Request"},
    Reason{422, "Unprocessable Content"},
    Reason{428, "Precondition Required"},
    Reason{429, "Too Many Requests"},
    Reason{431, "Request Header Fields Too Large"},
    Reason{500, "Internal Server Error"},
    Reason{501, "Not Implemented"},
    Reason{502, "Bad Gateway"},
    Reason{503, "Service Unavailable"},
    Reason{505, "HTTP Version Not Supported"},
};

}  // namespace

std::string_view HttpReason(int status) {
  const auto* const found =
      std::find_if(kReasons.begin(), kReasons.end(),
                   [status](const Reason& reason) { return reason.status == status; });
  return found == kReasons.end() ? "Status" : found->words;
}

}  // namespace harmonaize
