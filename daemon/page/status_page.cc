#include "daemon/page/status_page.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "daemon/page/page.h"

namespace harmonaize::daemon {
namespace {

/// The places in page.html that the style and the script take.
constexpr std::string_view kStylePlace = "/*page.css*/";
constexpr std::string_view kScriptPlace = "/*page.js*/";

/// Returns the source of a Content-Security-Policy that allows an inline text.
/// Source: W3C, Content Security Policy Level 3, section 2.3.1, "hash-source".
Result<std::string> HashSourceOf(std::string_view text) {
  std::array<uint8_t, 32> digest{};
  if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    return SystemError("OpenSSL cannot compute a SHA-256");
  }
  std::array<uint8_t, 4 * ((digest.size() + 2) / 3) + 1> base64{};
  EVP_EncodeBlock(base64.data(), digest.data(), static_cast<int>(digest.size()));
  return fmt::format("'sha256-{}'", reinterpret_cast<const char*>(base64.data()));
}

Status Put(std::string_view place, std::string_view text, std::string* document) {
  const size_t at = document->find(place);
  if (at == std::string::npos) return InternalError("page.html has no place '{}'", place);
  document->replace(at, place.size(), text);
  return Status::Ok();
}

}  // namespace

Result<StatusPage> MakeStatusPage() {
  StatusPage page{.document = kPageDocument, .policy = {}};
  HZ_RETURN_IF_ERROR(Put(kStylePlace, kPageStyle, &page.document));
  HZ_RETURN_IF_ERROR(Put(kScriptPlace, kPageScript, &page.document));
  HZ_ASSIGN_OR_RETURN(const std::string style, HashSourceOf(kPageStyle));
  HZ_ASSIGN_OR_RETURN(const std::string script, HashSourceOf(kPageScript));
  page.policy = fmt::format(
      "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
      "trusted-types 'none'",
      script, style);
  return page;
}

}  // namespace harmonaize::daemon
