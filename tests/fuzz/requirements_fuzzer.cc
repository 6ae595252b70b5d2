// What a tenant says of a job, which the daemon reads, too.

#include <algorithm>
#include <cstdint>
#include <string>

#include "src/base/toml_depth.h"
#include "src/base/toml_parse.h"
#include "src/requirements/requirements.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

/// Deepest document that is parsed here to be measured: what is deeper is no use to anybody.
constexpr int kDeepestMeasured = 64;

int DepthOf(const toml::node& node) {
  int below = 0;
  if (const toml::table* table = node.as_table()) {
    for (const auto& [key, value] : *table) below = std::max(below, DepthOf(value));
  } else if (const toml::array* array = node.as_array()) {
    for (const toml::node& value : *array) below = std::max(below, DepthOf(value));
  } else {
    return 0;
  }
  return below + 1;
}

void Run(std::string_view text) {
  const int depth = TomlDepth(text);
  if (depth <= kDeepestMeasured) {
    const Result<toml::table> parsed = ParseToml(text, "fuzz.toml");
    Require(!parsed.ok() || DepthOf(*parsed) <= depth, "no document is deeper than was counted");
  }
  const Result<Requirements> read = ParseRequirements(text, "fuzz.toml");
  Require(read.ok() == ReadRequirements(text, "fuzz.toml", 5).mistakes.empty(),
          "what is right has no mistakes");
  if (!read.ok()) return RequireClean(read.status().message(), "a clean error");
  const std::string written = RequirementsText(*read);
  const Result<Requirements> again = ParseRequirements(written, "written.toml");
  RequireOk(again.status(), "what was read can be written and read");
  Require(RequirementsText(*again) == written, "and is the same then");
  Require(Merged(*read, *read) == *read, "what is said twice is said once");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
