#include "daemon/http/http_token.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "src/base/base64_url.h"
#include "src/base/clean_text.h"
#include "src/base/hex.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// The form of the file; a file of another one counts as damaged.
constexpr int kTokenFileFormat = 1;

/// The longest id and the longest name of a tenant that a file may hold, in bytes.
constexpr size_t kMostTokenIdBytes = 64;
constexpr size_t kMostTenantNameBytes = 1024;

struct NamedScope {
  HttpScope scope;
  std::string_view name;
};
constexpr std::array kScopes = {
    NamedScope{HttpScope::kTenant, "tenant"},
    NamedScope{HttpScope::kOperator, "operator"},
    NamedScope{HttpScope::kOperatorReadOnly, "operator-read-only"},
    NamedScope{HttpScope::kMetrics, "metrics"},
};

Result<std::string> TextField(const json& object, const char* name, size_t most_bytes) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return InvalidArgument("it lacks '{}'", name);
  const std::string& text = found->get_ref<const std::string&>();
  if (CleanText(text, most_bytes) == text) return text;
  return InvalidArgument("'{}' is too long or is not clean text", name);
}

Result<int64_t> NumberField(const json& object, const char* name, int64_t most) {
  const auto found = object.find(name);
  // Numbers that do not fit are read as unsigned or as floating point.
  if (found == object.end() || !found->is_number_integer()) {
    return InvalidArgument("it lacks '{}'", name);
  }
  if (found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(most)) {
    return InvalidArgument("'{}' is above {}", name, most);
  }
  const auto number = found->get<int64_t>();
  if (number < 0) return InvalidArgument("'{}' is below 0", name);
  return number;
}

std::optional<TokenDigest> DigestFrom(std::string_view hex) {
  TokenDigest digest{};
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < hex.size(); ++i) {
    const char one = hex[i];
    const bool is_digit = one >= '0' && one <= '9';
    if (!is_digit && !(one >= 'a' && one <= 'f')) return std::nullopt;
    const int value = is_digit ? one - '0' : one - 'a' + 10;
    digest[i / 2] = static_cast<uint8_t>(digest[i / 2] << 4 | value);
  }
  return digest;
}

Result<TenantIdentity> ParseTenant(const json& entry) {
  const auto found = entry.find("tenant");
  if (found == entry.end() || !found->is_object()) return InvalidArgument("it lacks 'tenant'");
  constexpr int64_t kMostNumber = std::numeric_limits<uint32_t>::max();
  TenantIdentity tenant;
  HZ_ASSIGN_OR_RETURN(const int64_t number, NumberField(*found, "number", kMostNumber));
  HZ_ASSIGN_OR_RETURN(const int64_t across, NumberField(*found, "across_hosts", kMostNumber));
  HZ_ASSIGN_OR_RETURN(const int64_t user, NumberField(*found, "user", kMostNumber));
  HZ_ASSIGN_OR_RETURN(tenant.name, TextField(*found, "name", kMostTenantNameBytes));
  tenant.number = static_cast<uint32_t>(number);
  tenant.across_hosts = static_cast<uint32_t>(across);
  tenant.user = static_cast<uid_t>(user);
  return tenant;
}

Result<StoredToken> ParseToken(const json& entry) {
  if (!entry.is_object()) return InvalidArgument("a token is no object");
  constexpr int64_t kMostSeconds = std::numeric_limits<int64_t>::max();
  StoredToken stored;
  HttpToken& token = stored.token;
  HZ_ASSIGN_OR_RETURN(token.id, TextField(entry, "id", kMostTokenIdBytes));
  HZ_ASSIGN_OR_RETURN(const std::string scope, TextField(entry, "scope", kMostNoteBytes));
  HZ_ASSIGN_OR_RETURN(token.scope, ScopeNamed(scope));
  HZ_ASSIGN_OR_RETURN(token.note, TextField(entry, "note", kMostNoteBytes));
  HZ_ASSIGN_OR_RETURN(token.created, NumberField(entry, "created", kMostSeconds));
  HZ_ASSIGN_OR_RETURN(token.expires, NumberField(entry, "expires", kMostSeconds));
  HZ_ASSIGN_OR_RETURN(const std::string hex, TextField(entry, "sha256", kMostNoteBytes));
  const std::optional<TokenDigest> digest = DigestFrom(hex);
  if (!digest) return InvalidArgument("'sha256' is not 64 hexadecimal digits");
  stored.digest = *digest;
  if (token.scope == HttpScope::kTenant) {
    HZ_ASSIGN_OR_RETURN(token.tenant, ParseTenant(entry));
  }
  return stored;
}

json FormatToken(const StoredToken& stored) {
  const HttpToken& token = stored.token;
  json entry = {{"id", token.id},           {"scope", std::string(ScopeName(token.scope))},
                {"note", token.note},       {"created", token.created},
                {"expires", token.expires}, {"sha256", HexOf(stored.digest)}};
  if (token.scope == HttpScope::kTenant) {
    entry["tenant"] = {{"number", token.tenant.number},
                       {"across_hosts", token.tenant.across_hosts},
                       {"user", token.tenant.user},
                       {"name", token.tenant.name}};
  }
  return entry;
}

}  // namespace

std::string_view ScopeName(HttpScope scope) {
  const auto* const found =
      std::find_if(kScopes.begin(), kScopes.end(),
                   [scope](const NamedScope& one) { return one.scope == scope; });
  return found == kScopes.end() ? "stranger" : found->name;
}

Result<HttpScope> ScopeNamed(std::string_view name) {
  const auto* const found = std::find_if(
      kScopes.begin(), kScopes.end(), [name](const NamedScope& one) { return one.name == name; });
  if (found != kScopes.end()) return found->scope;
  return InvalidArgument(
      "there is no scope '{}'; there are tenant, operator, operator-read-only and metrics",
      CleanText(name, kMostNoteBytes));
}

std::string FormatTokenFile(const std::vector<StoredToken>& tokens) {
  json entries = json::array();
  for (const StoredToken& token : tokens) entries.push_back(FormatToken(token));
  const json document = {{"format", kTokenFileFormat}, {"tokens", std::move(entries)}};
  return JsonText(document, 1) + "\n";
}

Result<std::vector<StoredToken>> ParseTokenFile(std::string_view text) {
  const json document = ReadJson(text);
  if (!document.is_object()) return InvalidArgument("it is no JSON object");
  HZ_ASSIGN_OR_RETURN(const int64_t format, NumberField(document, "format", 1 << 20));
  if (format != kTokenFileFormat) return InvalidArgument("it is of format {}", format);
  const auto entries = document.find("tokens");
  if (entries == document.end() || !entries->is_array())
    return InvalidArgument("it lacks 'tokens'");
  if (entries->size() > kMostTokens) {
    return InvalidArgument("it holds more than {} tokens", kMostTokens);
  }
  std::vector<StoredToken> tokens;
  std::set<std::string> ids;
  for (const json& entry : *entries) {
    HZ_ASSIGN_OR_RETURN(StoredToken token, ParseToken(entry));
    if (!ids.insert(token.token.id).second) {
      return InvalidArgument("it has the token {} twice", token.token.id);
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace harmonaize::daemon
