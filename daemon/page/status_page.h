#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// The longest page, in bytes: it has to come quickly over a slow line, too.
inline constexpr size_t kMostPageBytes = size_t{100} << 10;

/// The status page (docs/status-page.md): one HTML file with its style and script in it, and
/// without any data. Its script asks the other routes for these.
struct StatusPage {
  std::string document;
  /// The Content-Security-Policy under which a browser runs this style and this script, and
  /// nothing else.
  std::string policy;
};

/// Puts the page together. Errors: kInternalError if the files that it is made of do not fit each
/// other, which a test excludes; kSystemError if OpenSSL fails.
Result<StatusPage> MakeStatusPage();

}  // namespace harmonaize::daemon
