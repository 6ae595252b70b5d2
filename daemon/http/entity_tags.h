#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/http/http_exchange.h"

namespace harmonaize::daemon {

/// Entity tags of answers. A tag is a keyed digest (HMAC-SHA-256) of what the caller may see, under
/// a random key of this process, so nobody can learn from a tag what a body holds, or whether two
/// callers see the same. Thread: any.
class EntityTags {
 public:
  /// Draws the key from the kernel.
  static Result<EntityTags> Create();

  /// Returns the tag, in quotation marks, of a body as `caller` sees it.
  std::string Of(const HttpCaller& caller, std::string_view body) const;
  /// Adds the tag of its body to an answer of status 200. The answer becomes 304 without a body if
  /// the request says with If-None-Match that the caller has it.
  void Apply(const HttpRequest& request, HttpResponse* response) const;

 private:
  EntityTags() = default;

  std::array<uint8_t, 32> key_{};
};

/// Returns whether an If-None-Match or If-Match header lists the tag, or is "*".
bool ListsEntityTag(std::string_view header, std::string_view tag);

}  // namespace harmonaize::daemon
