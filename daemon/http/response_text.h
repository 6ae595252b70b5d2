#pragma once

#include <cstdint>
#include <string>

#include "daemon/http/http_exchange.h"

namespace harmonaize::daemon {

/// How an answer goes out.
struct ResponseForm {
  bool head_only = false;   ///< The request was HEAD.
  bool keep_alive = false;  ///< Another request may follow.
  int version = 11;         ///< Of the request: 10 or 11.
};

/// Returns an answer as it goes out, with the headers that every answer has.
std::string FormatResponse(const HttpResponse& response, const ResponseForm& form);

/// Returns the head of an event stream. The stream goes out in chunks to clients of HTTP/1.1.
std::string FormatStreamHead(const ResponseForm& form);
/// Returns a piece of an event stream as it goes out.
std::string FormatStreamPiece(std::string_view text, const ResponseForm& form);
/// Returns what ends an event stream; "" where the end of the connection does.
std::string_view StreamEnd(const ResponseForm& form);

}  // namespace harmonaize::daemon
