#include "daemon/http/entity_tags.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <span>

#include "src/base/base64_url.h"
#include "src/base/hex.h"
#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

/// Bytes of a digest that a tag shows; 16 make an accidental match as good as impossible.
constexpr size_t kTagBytes = 16;

std::string_view WithoutSpace(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

Result<EntityTags> EntityTags::Create() {
  EntityTags tags;
  HZ_RETURN_IF_ERROR(FillRandom(std::as_writable_bytes(std::span(tags.key_))));
  return tags;
}

std::string EntityTags::Of(const HttpCaller& caller, std::string_view body) const {
  // A newline ends each part, and none of the first three can hold one.
  const std::string text = fmt::format("{}\n{}\n{}\n", static_cast<int>(caller.scope),
                                       caller.tenant.number, body.size()) +
                           std::string(body);
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
           &length) == nullptr) {
    return "";
  }
  return "\"" + HexOf(std::span(digest).first(kTagBytes)) + "\"";
}

void EntityTags::Apply(const HttpRequest& request, HttpResponse* response) const {
  if (response->status != 200) return;
  const std::string tag = Of(request.caller, response->body);
  if (tag.empty()) return;
  response->headers.emplace_back("ETag", tag);
  const auto known = request.headers.find("if-none-match");
  if (request.method != "GET" || known == request.headers.end()) return;
  if (!ListsEntityTag(known->second, tag)) return;
  response->status = 304;
  response->body.clear();
}

bool ListsEntityTag(std::string_view header, std::string_view tag) {
  if (WithoutSpace(header) == "*") return true;
  // Tags of this server hold no comma.
  while (!header.empty()) {
    const size_t end = std::min(header.find(','), header.size());
    std::string_view one = WithoutSpace(header.substr(0, end));
    if (one.substr(0, 2) == "W/") one.remove_prefix(2);
    if (one == tag) return true;
    header.remove_prefix(std::min(end + 1, header.size()));
  }
  return false;
}

}  // namespace harmonaize::daemon
