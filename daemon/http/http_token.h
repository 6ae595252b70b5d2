#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/http_exchange.h"
#include "daemon/identity/tenant_identity.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// What may be known of a token. Times are seconds since 1970.
struct HttpToken {
  std::string id;  ///< Random; names the token and is no secret.
  HttpScope scope = HttpScope::kMetrics;
  TenantIdentity tenant;  ///< For scope kTenant.
  std::string note;       ///< What an operator has written down for it.
  int64_t created = 0;
  int64_t expires = 0;
};

/// The SHA-256 of a token's secret, of which the daemon keeps nothing else.
using TokenDigest = std::array<uint8_t, 32>;

struct StoredToken {
  HttpToken token;
  TokenDigest digest{};
};

/// Most tokens that exist at a time; each request over TCP is compared with all of them.
inline constexpr size_t kMostTokens = 1000;

/// The longest note, in bytes: a sentence for people.
inline constexpr size_t kMostNoteBytes = 256;

/// Returns "tenant", "operator", "operator-read-only" or "metrics".
std::string_view ScopeName(HttpScope scope);
/// Returns the scope of that name. Errors: kInvalidArgument, with the names that there are.
Result<HttpScope> ScopeNamed(std::string_view name);

/// Returns the text of a token file.
std::string FormatTokenFile(const std::vector<StoredToken>& tokens);
/// Reads the text of a token file. Errors: kInvalidArgument says what is wrong; nothing is read of
/// a file that is wrong anywhere.
Result<std::vector<StoredToken>> ParseTokenFile(std::string_view text);

}  // namespace harmonaize::daemon
