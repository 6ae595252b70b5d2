// What a stranger can ask for: targets, hosts, tokens in headers, and the routes that they lead to.

#include <cstdint>
#include <string>

#include "daemon/http/entity_tags.h"
#include "daemon/http/http_target.h"
#include "daemon/http/request_checks.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using namespace daemon;

void Run(std::string_view text) {
  const Result<HttpTarget> target = ParseHttpTarget(text);
  if (!target.ok()) RequireClean(target.status().message(), "an error that quotes a stranger");
  if (target.ok()) {
    for (const std::string& segment : target->path) {
      RequireClean(segment, "a segment is clean");
      Require(!segment.empty() && segment != "." && segment != "..", "a segment leads down");
    }
    std::string encoded = EncodeHttpPath(target->path);
    char mark = '?';
    for (const auto& [name, value] : target->query) {
      RequireClean(name, "a name is clean");
      RequireClean(value, "a value is clean");
      encoded += mark + PercentEncode(name) + "=" + PercentEncode(value);
      mark = '&';
    }
    // What was written in short takes up to three times as many bytes.
    if (encoded.size() <= kMostTargetBytes) {
      const Result<HttpTarget> again = ParseHttpTarget(encoded);
      RequireOk(again.status(), "a target can be read as it is written");
      Require(again->path == target->path && again->query == target->query, "and is the same");
    }
  }

  if (const auto host = HostOf(text)) {
    Require(!host->empty() && host->size() <= text.size(), "a host is a part of the header");
  }
  if (const auto secret = BearerOf(text)) Require(!secret->empty(), "a secret is not empty");
  Require(!ListsEntityTag(text, "\"no stranger has this tag\"") ||
              text.find("\"no stranger has this tag\"") != std::string_view::npos ||
              text.find('*') != std::string_view::npos,
          "a tag is found where it stands");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
